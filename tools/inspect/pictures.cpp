#include "tools/inspect/pictures.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/inspect/page.hpp"
#include "train/files.hpp"

namespace tete {

namespace {

// The standard output of a program; "" if it does not start.
std::string output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = -1;
  const bool runs = posix_spawn(&child, words[0], &actions, nullptr, words.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string out;
  char part[65536];
  for (ssize_t n; runs && (n = read(ends[0], part, sizeof part)) > 0;)
    out.append(part, static_cast<size_t>(n));
  close(ends[0]);
  if (runs) waitpid(child, nullptr, 0);
  return out;
}

// A file or folder that is removed at the end.
struct Temporary {
  std::string path;
  ~Temporary() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// "/home/me/a b" -> "file:///home/me/a%20b"
std::string address_of(const std::string& path) {
  static const char digits[] = "0123456789ABCDEF";
  std::string out = "file://";
  for (unsigned char c : std::filesystem::absolute(path).string())
    if (std::isalnum(c) ||
        std::string_view("/-_.~").find(static_cast<char>(c)) != std::string::npos)
      out += static_cast<char>(c);
    else out += {'%', digits[c >> 4], digits[c & 15]};
  return out;
}

// The pictures by name. At #pictures the page draws them all and leaves them in its text
// (tools/inspect/page/pictures.js). The page and the browser's profile are in `folder` meanwhile: a
// browser in a snap sees no /tmp.
nlohmann::json drawn(const Report& report, const std::string& browser, const std::string& folder) {
  const Temporary page{folder + "/tete-page.html"}, profile{folder + "/tete-browser"};
  write_page(report, page.path);
  std::vector<std::string> command{
      browser,
      "--headless=new",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--window-size=1280,800",
      "--user-data-dir=" + std::filesystem::absolute(profile.path).string(),
      "--dump-dom"};
  if (geteuid() == 0) command.emplace_back("--no-sandbox");  // else Chromium refuses to run as root
  command.push_back(address_of(page.path) + "#pictures");
  const std::string out = output_of(command), begin = "<script type=\"application/json\">";
  const size_t at = out.rfind(begin), from = at + begin.size();
  if (at != std::string::npos)
    if (auto all = nlohmann::json::parse(out.substr(from, out.find("</script>", from) - from),
                                         nullptr, false);
        all.is_object())
      return all;
  fail(ErrorKind::resource, browser, " drew no pictures; the page, --out FILE, saves each");
}

}  // namespace

std::string find_browser() {
  const char* const path = std::getenv("PATH");
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');)
      if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0)
        return file;
  }
  bad_input(
      "--pictures takes Chromium or Google Chrome, which draw them, and neither is in PATH; the "
      "page, --out FILE, saves each picture");
}

void write_pictures(const Report& report, const std::string& browser, const std::string& folder) {
  make_folder(folder);
  const nlohmann::json pictures = drawn(report, browser, folder);
  for (const auto& [name, picture] : pictures.items()) {
    const auto [inner, file] = split_path(name);
    if (!inner.empty()) make_folder(folder + "/" + inner);
    const std::string svg = picture.get<std::string>();
    replace_file(inner.empty() ? folder : folder + "/" + inner, file + ".svg", svg.size(),
                 [&](const Write& write) { write(svg); });
  }
}

}  // namespace tete
