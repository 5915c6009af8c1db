#include "tools/hosts.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <sstream>

#include "core/error.hpp"
#include "train/files.hpp"

namespace tete {

std::vector<Host> read_hosts(const std::string& list) {
  std::vector<Host> hosts;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    Host host{name};
    if (const size_t colon = name.rfind(':'); colon != std::string::npos) {
      const std::string digits = name.substr(colon + 1);
      host.name = name.substr(0, colon);
      const bool number =
          !digits.empty() && digits.size() < 7 &&
          std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
      host.ranks = number ? std::stoi(digits) : 0;
    }
    if (host.name.empty() || host.ranks < 1)
      bad_input("--hosts ", list, ": expected names with numbers of ranks, as in a,b:2, got '",
                name, "'");
    hosts.push_back(host);
  }
  return hosts;
}

std::string host_of(int rank, const std::vector<Host>& hosts, const std::string& otherwise) {
  for (const Host& host : hosts)
    if ((rank -= host.ranks) < 0) return host.name;
  return otherwise;
}

// True if its kernel answers, be it that nobody listens.
static bool answers(const std::string& name, double seconds) {
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.c_str(), "22", &wanted, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next) {
    const File plug(socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!plug) continue;
    int error = connect(plug.descriptor(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    pollfd ready = {plug.descriptor(), POLLOUT, 0};
    if (error == EINPROGRESS && poll(&ready, 1, static_cast<int>(1000 * seconds)) == 1) {
      socklen_t size = sizeof error;
      getsockopt(plug.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0 || error == ECONNREFUSED) return true;
  }
  return false;
}

std::vector<std::string> silent_hosts(const std::vector<Host>& hosts, double seconds) {
  std::vector<std::string> silent;
  for (const Host& host : hosts)
    if (!answers(host.name, seconds)) silent.push_back(host.name);
  return silent;
}

}  // namespace tete
