// Stopping on request: by a signal, or by another process of the run (train/heartbeat.hpp).
#pragma once

namespace tete {

// While it lives, SIGINT, SIGTERM, SIGHUP (unless it is ignored, as under nohup) and SIGUSR1 ask
// for an orderly stop: the training loop finishes its step, saves and returns; a validation and
// what a model writes end early. A second SIGINT ends the program at once with status 130. `train`
// makes one if there is none.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  static bool requested();  // false where none lives
  static void request();    // as SIGTERM does
  // The exit code of a program that the signal ended: 128 plus its number.
  static int exit_code();
};

}  // namespace tete
