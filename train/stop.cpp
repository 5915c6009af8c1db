// A handler does nothing but note the signal; who works looks between two steps, batches or tokens.
#include "train/stop.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace tete {

namespace {

constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

volatile sig_atomic_t stop_requested = 0;  // the signal
volatile sig_atomic_t interrupted = 0;
std::atomic<int> listeners = 0;  // StopSignals alive
std::array<struct sigaction, signals.size()> before;

void on_signal(int signal) {
  if (signal == SIGINT && interrupted) _exit(130);
  if (signal == SIGINT) interrupted = 1;
  stop_requested = signal;
}

}  // namespace

StopSignals::StopSignals() {
  if (listeners++ > 0) return;
  stop_requested = 0;
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], nullptr, &before[i]);
    // nohup ignores SIGHUP, so that the program outlives its terminal.
    if (signals[i] == SIGHUP && before[i].sa_handler == SIG_IGN) continue;
    sigaction(signals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  if (--listeners > 0) return;
  for (size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before[i], nullptr);
}

bool StopSignals::requested() { return listeners > 0 && stop_requested != 0; }
void StopSignals::request() { stop_requested = SIGTERM; }
int StopSignals::exit_code() { return 128 + stop_requested; }

}  // namespace tete
