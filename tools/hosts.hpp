// The machines of a run, as a person names them.
#pragma once
#include <string>
#include <vector>

namespace tete {

struct Host {
  std::string name;
  int ranks = 1;
};
// "a,b:2": one rank on a, two on b. Fails (input) where a count is none.
std::vector<Host> read_hosts(const std::string& list);
// The name of the machine that has the rank, as each in turn has as many as it takes; or another.
std::string host_of(int rank, const std::vector<Host>& hosts, const std::string& otherwise);
// The names of those that give no sign to this machine within so many seconds: no address, no
// route, or no answer where a remote shell would listen, not even a refusal. A firewall may do the
// same.
std::vector<std::string> silent_hosts(const std::vector<Host>& hosts, double seconds);

}  // namespace tete
