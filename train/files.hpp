// Files that survive: every write is complete or did not happen.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tete {

// An open file or folder; closes itself.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File other) noexcept { return std::swap(descriptor_, other.descriptor_), *this; }
  ~File();
  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

// "a/b/c" -> "a/b", "c"; the folder of "c" is "".
std::pair<std::string, std::string> split_path(const std::string& path);
// Makes the folder and its parents, if they are missing. Errors: ErrorKind::resource.
void make_folder(const std::string& path);
// A regular file, open for reading. One that is missing, a folder, a pipe or a device is bad input.
File open_regular_file(const std::string& path);
size_t file_size(const File& file);
// `count` bytes at an offset; fails where the file ends before.
void read_at(const File& file, const std::string& path, size_t offset, void* to, size_t count);
// The whole of a regular file.
std::string read_file(const std::string& path);

// Replaces folder/name by what `fill` writes, atomically: a temporary file beside it, fsync,
// rename, fsync of the folder. On any failure the old file is intact, the temporary one is gone,
// and an Error (resource) names the path and the reason. `bytes` is the size to come: where the
// disk has less room, nothing is begun.
using Write = std::function<void(std::string_view bytes)>;
void replace_file(const std::string& folder, const std::string& name, size_t bytes,
                  const std::function<void(const Write& write)>& fill);
// The open descriptor that a path names, or a symbolic link leads to: /dev/stdout, /dev/stderr,
// /dev/fd/N; -1: it names none.
int named_descriptor(const std::string& path);
// Writes the file that a person named. A regular file, or none yet, as replace_file does; behind a
// symbolic link, which stays. A pipe, a device and an open descriptor take the bytes as a stream. A
// folder is bad input.
void write_file(const std::string& path, size_t bytes,
                const std::function<void(const Write& write)>& fill);
// Replaces folder/name by a symbolic link to `target`. A hint for people: failures are ignored.
void replace_link(const std::string& folder, const std::string& name, const std::string& target);

// From now on a full disk or a closed pipe is an error code, not the end of the program (SIGXFSZ
// and SIGPIPE are ignored). Called by everything here that writes or sends.
void ignore_write_signals();

// "No space left on device"
std::string errno_text(int code);

}  // namespace tete
