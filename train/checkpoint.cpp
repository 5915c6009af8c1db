#include "train/checkpoint.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <map>

namespace tete {

namespace {

// ---- Numbers as text, the same text for the same number ----------------------------------------

template <class T>
std::string to_text(T number) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

// A number that is at least `least`.
template <class T>
T read_number(const Safetensors& file, const std::string& key, T least = 0) {
  const std::string& digits = file.metadata(key);
  T number = {};
  const char* end = digits.data() + digits.size();
  const auto [at, status] = std::from_chars(digits.data(), end, number);
  if (status != std::errc() || at != end)
    bad_input(file.path(), " is not a whole checkpoint: its '", key, "' is '", digits.substr(0, 40),
              "', which is no number");
  if (!(number >= least))  // or it is no number at all
    bad_input(file.path(), " is not a whole checkpoint: its '", key, "' is ", number,
              ", expected at least ", least);
  return number;
}

// ---- Tensors by name ---------------------------------------------------------------------------

struct Wanted {
  std::string name;
  Dtype dtype;
  Shape shape;
};

// Compares what a file has under a prefix with what is wanted; all differences in one sentence.
void check_names(const Safetensors& file, const std::string& prefix,
                 const std::vector<Wanted>& wanted) {
  std::map<std::string, const Safetensors::Entry*> present;
  for (const Safetensors::Entry& entry : file.entries())
    if (entry.name.starts_with(prefix)) present[entry.name] = &entry;
  std::vector<std::string> problems;
  for (const Wanted& tensor : wanted) {
    const auto found = present.find(tensor.name);
    if (found == present.end()) {
      problems.push_back(tensor.name + " is missing");
      continue;
    }
    const Safetensors::Entry& entry = *found->second;
    if (entry.dtype != tensor.dtype || !(entry.shape == tensor.shape))
      problems.push_back(text(tensor.name, " is ", describe(entry.dtype, entry.shape),
                              ", expected ", describe(tensor.dtype, tensor.shape)));
    present.erase(found);
  }
  for (const auto& [name, entry] : present)
    problems.push_back(text(name, " (", describe(entry->dtype, entry->shape), ") is not expected"));
  if (problems.empty()) return;
  std::string list;
  const size_t shown = std::min<size_t>(problems.size(), 20);
  for (size_t i = 0; i < shown; ++i) list += "\n    " + problems[i];
  if (shown < problems.size()) list += text("\n    and ", problems.size() - shown, " more");
  bad_input(file.path(), " does not fit the model, in ", problems.size(), " tensor",
            problems.size() == 1 ? "" : "s", ":", list);
}

Tensor read_laid_out(const Safetensors& file, const std::string& name, const Short<int>& layout) {
  Tensor value = file.read(name);
  if (layout.empty() || layout.size() != value.rank()) return value;
  return with_layout(value, layout);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* entries = opendir(folder.c_str());
  if (!entries) return names;
  while (const dirent* entry = readdir(entries)) names.push_back(entry->d_name);
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

constexpr std::string_view name_begin = "step-", name_end = ".safetensors";

// The step in a checkpoint's name, or -1.
int64_t step_of(std::string_view name) {
  if (!name.starts_with(name_begin) || !name.ends_with(name_end)) return -1;
  name.remove_prefix(name_begin.size());
  name.remove_suffix(std::min(name.size(), name_end.size()));
  int64_t step = -1;
  const auto [at, status] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool all = status == std::errc() && at == name.data() + name.size();
  return all && step >= 0 ? step : -1;
}

}  // namespace

Metadata to_metadata(const RunState& state) {
  Metadata metadata = {
      {"format", text("tete checkpoint ", checkpoint_format)},
      {"step", to_text(state.step)},
      {"tokens", to_text(state.tokens)},
      {"samples", to_text(state.samples)},
      {"random", "Philox 4x32-10, keys by SplitMix64"},
      {"seed", to_text(state.seed)},
      {"shards", to_text(state.shards)},
      {"optimizer", state.optimizer},
      {"config", state.config},
      {"tokenizer", state.tokenizer},
      {"data", state.data},
      {"program", state.program},
      {"kernels", state.kernels},
      {"best_step", to_text(state.best_step)},
      {"best_loss", to_text(state.best_loss)},
  };
  if (state.owes_validation) metadata["owes"] = "validation";
  return metadata;
}

RunState read_state(const Safetensors& file) {
  const std::string ours = "tete checkpoint ", &format = file.metadata("format");
  int version = 0;
  if (format.starts_with(ours))
    std::from_chars(format.data() + ours.size(), format.data() + format.size(), version);
  if (version < 1)
    bad_input(file.path(), " is not a checkpoint: its format is '", format.substr(0, 40), "'");
  if (version > checkpoint_format)
    bad_input(file.path(), " is a checkpoint of format ", version,
              ", and this program reads up to ", checkpoint_format, "; use a newer version of it");
  RunState state;
  state.step = read_number<int64_t>(file, "step");
  const int64_t named = step_of(split_path(file.path()).second);
  if (named >= 0 && named != state.step)
    bad_input(file.path(), " holds step ", state.step, ", but its name says step ", named,
              ": it was copied or renamed; remove it, or name it ", checkpoint_name(state.step));
  state.tokens = read_number<int64_t>(file, "tokens");
  state.samples = read_number<int64_t>(file, "samples");
  state.seed = read_number<uint64_t>(file, "seed");
  state.shards = read_number<int>(file, "shards", 1);
  state.optimizer = file.metadata("optimizer");
  state.config = file.metadata("config");
  state.tokenizer = file.metadata("tokenizer");
  state.data = file.metadata("data");
  state.program = file.metadata("program");
  state.kernels = file.metadata("kernels");
  state.best_step = read_number<int64_t>(file, "best_step", -1);
  state.best_loss =
      read_number<double>(file, "best_loss", -std::numeric_limits<double>::infinity());
  state.owes_validation = file.metadata().contains("owes");
  return state;
}

void check_same_run(const std::string& path, const RunState& saved, const RunState& asked,
                    Index batch) {
  const auto same = [&](const char* what, const auto& then, const auto& here) {
    if (then != here)
      bad_input("cannot go on from ", path, ": its ", what, " was ", then, ", and is ", here,
                " now");
  };
  same("seed", saved.seed, asked.seed);
  same("number of shards", saved.shards, asked.shards);
  same("optimizer", saved.optimizer, asked.optimizer);
  same("data (checksum, tokens)", saved.data, asked.data);
  if (saved.tokenizer != asked.tokenizer)
    bad_input("cannot go on from ", path, ": its vocabulary differs from the text's");
  if (saved.step > 0) same("batch", saved.samples / saved.step, batch);
}

Tensors read_params(const Safetensors& file, const std::vector<ParamSpec>& specs, Dtype dtype,
                    const std::string& prefix) {
  std::vector<Wanted> wanted;
  for (const ParamSpec& spec : specs) wanted.push_back({prefix + spec.name, dtype, spec.shape});
  check_names(file, prefix, wanted);
  Tensors values;
  for (const ParamSpec& spec : specs)
    values.push_back(read_laid_out(file, prefix + spec.name, spec.layout));
  return values;
}

void read_optimizer(const Safetensors& file, Optimizer& optimizer) {
  const std::string prefix = "optimizer/";
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < optimizer.state.size(); ++i) {
    const auto& [name, value] = optimizer.state[i];
    wanted.push_back({prefix + name, value.dtype(), optimizer.state_shape(i)});
  }
  check_names(file, prefix, wanted);
  for (size_t i = 0; i < wanted.size(); ++i) optimizer.set_state(i, file.read(wanted[i].name));
}

TensorSources checkpoint_tensors(const std::vector<ParamSpec>& specs, const Tensors& values,
                                 const Optimizer& optimizer) {
  NamedTensors params;
  for (size_t i = 0; i < specs.size(); ++i)
    params.push_back({"param/" + specs[i].name, values[i].detach()});
  TensorSources all = sources_of(params);
  for (size_t i = 0; i < optimizer.state.size(); ++i)
    all.push_back({"optimizer/" + optimizer.state[i].name, optimizer.state[i].value.dtype(),
                   optimizer.state_shape(i), [&optimizer, i] { return optimizer.whole_state(i); }});
  return all;
}

RunFolder::RunFolder(const std::string& path) : path_(path) {
  ignore_write_signals();
  make_folder(path);
  const std::string name = path + "/lock";
  lock_ = File(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!lock_ && errno == ELOOP) bad_input(name, " is a link: expected a file of the run's own");
  if (!lock_) fail(ErrorKind::resource, "cannot write in ", path, ": ", errno_text(errno));
  if (flock(lock_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      fail(ErrorKind::resource, "cannot lock ", name, ": ", errno_text(errno));
    char holder[32] = {};
    const ssize_t got = pread(lock_.descriptor(), holder, sizeof holder - 1, 0);
    const std::string pid(holder, got > 0 ? std::find(holder, holder + got, '\n') : holder);
    fail(ErrorKind::resource, path, " is in use by process ", pid.empty() ? "(unknown)" : pid,
         "; wait for it, or choose another folder");
  }
  const std::string pid = text(getpid(), "\n");
  if (ftruncate(lock_.descriptor(), 0) != 0 ||
      pwrite(lock_.descriptor(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    fail(ErrorKind::resource, "cannot write in ", path, ": ", errno_text(errno));
  // A killed save may have left this behind: a part of a checkpoint, a link not yet in its place.
  for (const std::string& left : names_in(path))
    if (left.starts_with(text(".", name_begin)) && left.ends_with(".tmp"))
      unlink((path + "/" + left).c_str());
  for (const char* link : {".latest.tmp", ".best.tmp"}) unlink((path + "/" + link).c_str());
}

std::string RunFolder::save(const RunState& state, const TensorSources& tensors, int keep) {
  const std::string name = checkpoint_name(state.step);
  replace_safetensors(path_, name, to_metadata(state), tensors);
  tidy(state, keep);
  return path_ + "/" + name;
}

void RunFolder::tidy(const RunState& state, int keep) {
  const std::vector<int64_t> saved = saved_steps(path_);
  replace_link(path_, "latest", checkpoint_name(state.step));
  if (std::count(saved.begin(), saved.end(), state.best_step) > 0)
    replace_link(path_, "best", checkpoint_name(state.best_step));
  int newest = 0;
  for (int64_t step : saved) {
    if (step > state.step || ++newest <= std::max(1, keep) || step == state.best_step) continue;
    unlink((path_ + "/" + checkpoint_name(step)).c_str());
  }
}

void RunFolder::check_empty() const {
  if (const std::vector<int64_t> steps = saved_steps(path_); !steps.empty())
    bad_input(path_, " holds a run already, saved at step ", steps.front(),
              "; resume it, or choose another folder");
}

void RunFolder::check_newest(const std::string& path, int64_t at) const {
  for (int64_t step : saved_steps(path_)) {
    if (step <= at) break;
    const std::string later = path_ + "/" + checkpoint_name(step);
    try {
      Safetensors(later).verify();
    } catch (const Error&) {
      continue;
    }
    bad_input("cannot go on from ", path, " in the folder ", path_, ": ", later,
              " is newer; resume the folder, or choose another one to write to");
  }
}

std::string checkpoint_name(int64_t step) {
  const std::string digits = text(step);
  return text(name_begin, std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0'), digits,
              name_end);
}

std::vector<int64_t> saved_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(folder))
    if (step_of(name) >= 0 && name == checkpoint_name(step_of(name)))
      steps.push_back(step_of(name));
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::string find_checkpoint(const std::string& path, std::vector<std::string>* warnings) {
  DIR* folder = opendir(path.c_str());
  if (!folder) return open_regular_file(path), path;
  closedir(folder);
  std::string last;
  for (int64_t step : saved_steps(path)) {
    const std::string file = path + "/" + checkpoint_name(step);
    try {
      Safetensors(file).verify();
      return file;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input) throw;
      last = error.what();
      if (warnings) warnings->push_back(last + "; taking the one before it");
    }
  }
  if (last.empty()) bad_input("there is no checkpoint in ", path);
  bad_input("there is no whole checkpoint in ", path, "; of the oldest: ", last);
}

}  // namespace tete
