#include "train/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/error.hpp"

namespace tete {

namespace {

// Runs a call again for as long as a signal interrupts it.
template <class Call>
auto retry(Call call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

[[noreturn]] void cannot(const char* what, const std::string& path, int code) {
  fail(ErrorKind::resource, "cannot ", what, " ", path, ": ", errno_text(code));
}

constexpr size_t largest_call = 1 << 30;  // bytes; Linux takes no more than 2 GiB at once

// All bytes, whatever number of them a call takes.
void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = retry(
        [&] { return ::write(descriptor, bytes.data(), std::min(bytes.size(), largest_call)); });
    if (written < 0) cannot("write", path, errno);
    if (written == 0) cannot("write", path, ENOSPC);
    bytes.remove_prefix(written);
  }
}

void check_free_space(int folder, const std::string& path, size_t bytes) {
  struct statvfs room = {};
  if (retry([&] { return fstatvfs(folder, &room); }) != 0 || room.f_blocks == 0) return;
  const size_t free = room.f_bavail * room.f_frsize;
  if (free < bytes)
    fail(ErrorKind::resource, "cannot write ", path, ": it takes ", bytes,
         " bytes, and the disk has ", free, " free");
}

File open_folder(const std::string& path) {
  const char* name = path.empty() ? "." : path.c_str();
  File folder(retry([&] { return open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder) cannot("open the folder", path, errno);
  return folder;
}

void close_written(File file, const std::string& path) {
  if (close(file.release()) != 0 && errno != EINTR) cannot("write", path, errno);
}

// The path, and what each symbolic link leads to; the last may be no file.
std::vector<std::string> links_from(const std::string& path) {
  std::vector<std::string> chain = {path};
  while (chain.size() <= 40) {
    const std::filesystem::path at = chain.back();
    std::error_code is_no_link;
    const std::filesystem::path target = std::filesystem::read_symlink(at, is_no_link);
    if (is_no_link) return chain;
    chain.push_back((at.parent_path() / target).string());
  }
  cannot("write", path, ELOOP);
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string errno_text(int code) {
  char buffer[256];
  return strerror_r(code, buffer, sizeof buffer);
}

void ignore_write_signals() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

void make_folder(const std::string& path) {
  for (size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (part.empty()) continue;
    if (mkdir(part.c_str(), 0777) == 0 || errno == EEXIST) continue;
    const int code = errno;
    struct stat about = {};
    if (stat(part.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) continue;
    cannot("make the folder", part, code);
  }
  struct stat about = {};
  if (stat(path.c_str(), &about) == 0 && !S_ISDIR(about.st_mode))
    fail(ErrorKind::resource, "cannot make the folder ", path, ": there is a file of that name");
}

std::pair<std::string, std::string> split_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

File open_regular_file(const std::string& path) {
  struct stat about = {};
  // Asked before opening: opening a pipe would wait for its writer.
  if (stat(path.c_str(), &about) != 0) {
    if (errno == ENOENT) bad_input("there is no file ", path);
    bad_input("cannot read ", path, ": ", errno_text(errno));
  }
  if (S_ISDIR(about.st_mode)) bad_input(path, " is a folder, not a file");
  if (!S_ISREG(about.st_mode)) bad_input(path, " is not a regular file");
  File file(retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!file) bad_input("cannot read ", path, ": ", errno_text(errno));
  return file;
}

size_t file_size(const File& file) {
  struct stat about = {};
  return fstat(file.descriptor(), &about) == 0 ? static_cast<size_t>(about.st_size) : 0;
}

void read_at(const File& file, const std::string& path, size_t offset, void* to, size_t count) {
  char* at = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got =
        retry([&] { return pread(file.descriptor(), at, std::min(count, largest_call), offset); });
    if (got < 0) bad_input("cannot read ", path, ": ", errno_text(errno));
    if (got == 0) bad_input(path, " became shorter while it was read");
    at += got, offset += got, count -= got;
  }
}

std::string read_file(const std::string& path) {
  const File file = open_regular_file(path);
  std::string all(file_size(file), '\0');
  read_at(file, path, 0, all.data(), all.size());
  return all;
}

void replace_file(const std::string& folder, const std::string& name, size_t bytes,
                  const std::function<void(const Write&)>& fill) {
  ignore_write_signals();
  const std::string path = folder.empty() ? name : folder + "/" + name;
  const std::string temporary = "." + name + ".tmp";
  const File at = open_folder(folder);
  check_free_space(at.descriptor(), path, bytes);
  unlinkat(at.descriptor(), temporary.c_str(), 0);  // of a save that was killed, or anything else
  File file(retry([&] {
    return openat(at.descriptor(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  0666);
  }));
  if (!file) cannot("write", path, errno);
  struct stat before = {};  // who may read it does not change
  if (fstatat(at.descriptor(), name.c_str(), &before, 0) == 0 && S_ISREG(before.st_mode))
    fchmod(file.descriptor(), before.st_mode & 07777);
  try {
    fill([&](std::string_view part) { write_all(file.descriptor(), part, path); });
    // A failed fsync or close is final: what is in the file is then unknown.
    if (retry([&] { return fsync(file.descriptor()); }) != 0) cannot("write", path, errno);
    close_written(std::move(file), path);
    if (renameat(at.descriptor(), temporary.c_str(), at.descriptor(), name.c_str()) != 0)
      cannot("replace", path, errno);
  } catch (...) {
    unlinkat(at.descriptor(), temporary.c_str(), 0);
    throw;
  }
  if (retry([&] { return fsync(at.descriptor()); }) != 0) cannot("write", folder, errno);
}

int named_descriptor(const std::string& path) {
  for (const std::string& at : links_from(path)) {
    const auto [parent, name] = split_path(at);
    std::error_code ignored;
    const auto folder = std::filesystem::canonical(parent.empty() ? "." : parent, ignored);
    if (folder == "/dev" && name == "stdout") return STDOUT_FILENO;
    if (folder == "/dev" && name == "stderr") return STDERR_FILENO;
    if (folder != std::filesystem::canonical("/proc/self/fd", ignored) &&
        folder != std::filesystem::canonical("/proc/thread-self/fd", ignored))
      continue;
    int descriptor = -1;
    const char* const end = name.data() + name.size();
    if (!name.empty() && std::from_chars(name.data(), end, descriptor).ptr == end)
      return descriptor;
  }
  return -1;
}

void write_file(const std::string& path, size_t bytes,
                const std::function<void(const Write&)>& fill) {
  ignore_write_signals();
  const auto stream = [&](int descriptor) {
    fill([&](std::string_view part) { write_all(descriptor, part, path); });
  };
  if (const int descriptor = named_descriptor(path); descriptor >= 0) return stream(descriptor);
  struct stat about = {};
  const bool exists = stat(path.c_str(), &about) == 0;
  if (exists && S_ISDIR(about.st_mode)) bad_input(path, " is a folder, not a file");
  if (exists && !S_ISREG(about.st_mode)) {
    File device(retry([&] { return open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY); }));
    if (!device) cannot("write", path, errno);
    stream(device.descriptor());
    return close_written(std::move(device), path);
  }
  const auto [folder, name] = split_path(links_from(path).back());
  replace_file(folder, name, bytes, fill);
}

void replace_link(const std::string& folder, const std::string& name, const std::string& target) {
  const File at = open_folder(folder);
  const std::string temporary = "." + name + ".tmp";
  unlinkat(at.descriptor(), temporary.c_str(), 0);
  if (symlinkat(target.c_str(), at.descriptor(), temporary.c_str()) != 0) return;
  if (renameat(at.descriptor(), temporary.c_str(), at.descriptor(), name.c_str()) != 0)
    unlinkat(at.descriptor(), temporary.c_str(), 0);
  else fsync(at.descriptor());
}

}  // namespace tete
