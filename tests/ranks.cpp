// Ranks: the bits of a run depend on its shards, never on the number of ranks; what they send and
// hold; and what they say where one is lost or differs.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/update.hpp"
#include "tests/error_of.hpp"
#include "tests/simulated_ranks.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tiny_run.hpp"
#include "train/divided_optimizer.hpp"
#include "train/files.hpp"
#include "train/loop.hpp"
#include "train/rank_cores.hpp"
#include "train/ranks.hpp"
#include "train/replicas.hpp"
#include "train/scaling.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

std::string bits_of(const Tensor& x) {
  if (!x) return "none";
  const std::span<const std::byte> bytes = x.host_bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string bits_of(const Tensors& xs) {
  std::string all;
  for (const Tensor& x : xs) all += bits_of(x) + "|";
  return all;
}

// ---- Sums --------------------------------------------------------------------------------------

// Parameters of several shapes, of which one gets no gradient from odd shards, one gets none at
// all, and one is fixed.
struct Leaves {
  Dtype dtype = Dtype::f32;
  Tensors layouts = {Tensor::zeros({70, 11}, dtype), permute(Tensor::zeros({3, 50}, dtype), {1, 0}),
                     Tensor::zeros({9}, dtype),      Tensor(),
                     Tensor::zeros({0, 4}, dtype),   Tensor::zeros({}, dtype),
                     Tensor::zeros({5}, dtype)};
  bool tells = true;  // when a gradient is final

  explicit Leaves(Dtype type = Dtype::f32) : dtype(type) {}
  ShardSum operator()(int shard, const OnReady& ready) const {
    ShardSum sum{Tensor::scalar(std::exp(shard), Dtype::f64), shard + 1, Tensors(layouts.size())};
    for (size_t i = layouts.size(); i-- > 0;) {
      if (i == 2 || i == 3 || (i == 6 && shard % 2 == 1)) continue;
      const Tensor g = random_normal(layouts[i].shape(), Key(shard).fold(i), dtype) *
                       std::pow(10.0, shard % 5 * 9 - 40);
      sum.grads[i] = laid_out_like(i == 5 ? g * -0.0 : g, layouts[i]);
      if (ready && tells) ready(i, sum.grads[i]);
    }
    return sum;
  }
};

std::string bits_of(const ShardSum& sum, const Tensors& layouts) {
  std::string all = bits_of(sum.loss) + text(sum.tokens);
  for (size_t i = 0; i < layouts.size(); ++i) {
    all += bits_of(sum.grads[i]) + "|";
    if (sum.grads[i]) CHECK(sum.grads[i].strides() == layouts[i].strides());
  }
  return all;
}

// ---- Steps -------------------------------------------------------------------------------------

enum class State { whole, divided };
// Each step ends with its update, or goes on while the next one begins.
enum class Steps { one_by_one, ahead };

std::unique_ptr<Optimizer> adam_of(const TinyRun& run, Comm& comm, State state) {
  const std::vector<ParamSpec>& specs = run.model.params.specs();
  return state == State::whole
             ? adam(specs)
             : divided_optimizer(comm, specs, [](const auto& parts) { return adam(parts); });
}

struct Trained {
  std::vector<double> losses;
  std::string values;
  size_t state = 0;  // bytes
};

// A run with a parameter so large that every rank has some rows of its squares.
struct WideRun : TinyRun {
  WideRun() {
    const ParamId z = model.params.declare({.name = "extra/z",
                                            .dims = {"d", "r"},
                                            .shape = {tiny_width, 17000},
                                            .init = {InitializerKind::normal, 0.01},
                                            .layout = {1, 0}});
    model.spoil = [z](const Forward& f, const Tensor& H) {
      return add("b n d, d", H, sum(tanh(f[z]), {1}) * 1e-4);
    };
    values = model.params.initial_values(Key(3));
  }
};

Trained trained(Comm& comm, int shards, int steps, SendAs send = SendAs::exact,
                State state = State::whole, Steps order = Steps::one_by_one,
                bool with_adafactor = false) {
  WideRun run;
  const auto optimizer =
      with_adafactor ? adafactor(run.model.params.specs()) : adam_of(run, comm, state);
  Stepper stepper(
      run.model.objective, run.data, *optimizer, comm,
      {.batch = 24, .shards = shards, .clip = 0.5, .dropout = 0.2, .seed = 5, .send = send});
  Trained result;
  for (int s = 0; s < steps; ++s)
    result.losses.push_back((order == Steps::ahead ? stepper.run_ahead(s, run.values, 1e-2)
                                                   : stepper.run(s, run.values, 1e-2))
                                .loss);
  stepper.settle(run.values);
  result.values = bits_of(run.values);
  result.state = bytes_of(optimizer->state);
  return result;
}

// ---- Runs --------------------------------------------------------------------------------------

struct Told : Reporter {
  int64_t stop_at = -1;
  std::vector<std::string> warnings;
  void step(const Progress& p) override {
    if (p.step == stop_at) StopSignals::request();
  }
  void warning(const std::string& sentence) override { warnings.push_back(sentence); }
};

// Trains in `folder` on so many ranks, to the end or until the last is asked to stop after a step;
// the errors of all. `before_loss` is called on the last one for each of its batches.
std::vector<std::string> run_on_ranks(
    int ranks, LoopOptions options, int64_t stop_at = -1,
    const std::function<void(int rank, LoopOptions& options, Tensors& values)>& change = {},
    std::optional<State> adams = {}, const std::function<void(bool training)>& before_loss = {}) {
  const StopSignals signals;
  SimulatedNetwork network(ranks);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  const auto body = [&](Comm& comm) {
    TinyRun run;
    LoopOptions mine = options;
    if (change) change(comm.rank(), mine, run.values);
    const auto optimizer = adams ? adam_of(run, comm, *adams) : adafactor(run.model.params.specs());
    Told told;
    if (comm.rank() == ranks - 1) told.stop_at = stop_at;
    Objective objective = run.model.objective;
    objective.loss = [&, loss = objective.loss](const Forward& forward, const Batch& batch) {
      if (before_loss && comm.rank() == ranks - 1) before_loss(forward.training);
      return loss(forward, batch);
    };
    try {
      train(objective, run.values, *optimizer, run.data, run.tokenizer, mine, told, comm);
    } catch (const SharedError& error) {
      errors[static_cast<size_t>(comm.rank())] = error.what();
    }
  };
  if (ranks == 1) body(single_process());
  else on_simulated_ranks(network, body);
  return errors;
}

LoopOptions options_of(const std::string& folder) {
  LoopOptions options;
  options.step = {.batch = 24, .shards = 24, .dropout = 0.1, .seed = 3};
  options.schedule = schedule_of("constant", 9);
  options.folder = folder;
  options.log_every = 2, options.validate_every = 4, options.save_every = 3;
  options.validation_samples = 10, options.validation_batch = 3;
  options.compare_every = 2;
  return options;
}

// The log without its times, and without what tells of ranks.
std::string timeless(const std::string& path) {
  std::ifstream file(path);
  std::string all;
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line);
    for (const char* key : {"time_s", "wall", "ms_step", "tok_per_s", "rss_mb", "ranks", "comm_s",
                            "optimizer_mb", "comm_exposed_s", "slowest_rank", "slowest_ratio"})
      json.erase(key);
    all += json.dump() + "\n";
  }
  return all;
}

}  // namespace

TEST_SUITE("ranks") {
  TEST_CASE("a sum has the same bits on any number of ranks") {
    for (Dtype dtype : {Dtype::f32, Dtype::f64})
      for (int shards : {1, 2, 3, 5, 8, 24}) {
        Leaves leaves(dtype);
        CAPTURE(shards);
        const std::string expected =
            bits_of(tree_sum(single_process(), shards, leaves.layouts, leaves), leaves.layouts);
        for (int ranks : {2, 3, 4, 6, 8}) {
          if (ranks > shards) continue;
          CAPTURE(ranks);
          leaves.tells = ranks % 2 == 0;
          SimulatedNetwork network(ranks);
          std::vector<std::string> found(static_cast<size_t>(ranks));
          on_simulated_ranks(network, [&](Comm& comm) {
            for (int again = 0; again < 2; ++again)
              found[static_cast<size_t>(comm.rank())] =
                  bits_of(tree_sum(comm, shards, leaves.layouts, leaves), leaves.layouts);
          });
          for (const std::string& each : found) CHECK((each == expected));  // no text
        }
      }
    SimulatedNetwork network(2);
    on_simulated_ranks(network, [&](Comm& comm) {
      CHECK(error_of(ErrorKind::input, [&] {
              tree_sum(comm, 1, {}, {});
            }).find("a step of 1 shards cannot be divided among 2") != std::string::npos);
    });
  }

  TEST_CASE("a gradient's parts are those of the whole, and so are the bits of its squares' sum") {
    const Tensors layouts = {Tensor::zeros({4096}),      Tensor::zeros({130, 4097}),
                             Tensor::zeros({5}),         Tensor(),
                             Tensor::zeros({0, 4}),      permute(Tensor::zeros({30, 900}), {1, 0}),
                             Tensor::zeros({4096 * 64}), Tensor::zeros({3 * 4096 + 1})};
    const auto leaf = [&](int shard, const OnReady&) {
      ShardSum sum{Tensor::scalar(1, Dtype::f64), 1, Tensors(layouts.size())};
      for (size_t i = 0; i < layouts.size(); ++i)
        if (layouts[i] && i != 2)
          sum.grads[i] =
              laid_out_like(random_normal(layouts[i].shape(), Key(shard).fold(i)), layouts[i]);
      return sum;
    };
    std::vector<Index> sizes;
    for (const Tensor& like : layouts) sizes.push_back(like ? like.size() : 0);
    const ShardSum whole = tree_sum(single_process(), 8, layouts, leaf);
    const std::vector<double> squares = sums_of_squares(whole.grads, cpu()).values();
    for (int ranks : {2, 3, 8}) {
      CAPTURE(ranks);
      const Division division(sizes, ranks, row_of_squares);
      SimulatedNetwork network(ranks);
      std::vector<ShardSum> parts(static_cast<size_t>(ranks));
      on_simulated_ranks(network, [&](Comm& comm) {
        ShardSum& mine = parts[static_cast<size_t>(comm.rank())];
        mine = tree_sum(comm, 8, layouts, leaf, SendAs::exact, &division);
        CHECK(sums_of_squares(comm, division, mine.grads) == squares);
      });
      std::vector<std::string> joined(layouts.size());
      for (int r = 0; r < ranks; ++r) {
        std::vector<size_t> taken(layouts.size());
        for (const Division::Piece& piece : division.pieces(r)) {
          CHECK(piece.first % row_of_squares == 0);
          const Tensor& part = parts[static_cast<size_t>(r)].grads[piece.parameter];
          if (!part) continue;
          std::string& all = joined[piece.parameter];
          const size_t at = 4 * static_cast<size_t>(piece.first), count = 4 * piece.count;
          all.resize(std::max(all.size(), at + count));
          all.replace(at, count, bits_of(part), taken[piece.parameter], count);
          taken[piece.parameter] += count;
        }
      }
      for (size_t i = 0; i < layouts.size(); ++i)
        if (whole.grads[i]) CHECK((joined[i] == bits_of(whole.grads[i])));
        else CHECK((joined[i] == "" && !parts[0].grads[i]));
    }
  }

  TEST_CASE("a sum sends what the tree asks for, and holds few gradients") {
    const Index count = 2'000'000;
    const Tensors layouts = {Tensor::zeros({count / 4}), Tensor::zeros({count / 4 * 3})};
    for (int shards : {8, 24, 64})
      for (int ranks : {2, 3, 4, 6, 8}) {
        CAPTURE(shards);
        CAPTURE(ranks);
        const TreeOrder order = tree_order(ranks, shards);
        SimulatedNetwork network(ranks);
        std::atomic<int64_t> most = 0;
        const size_t before = memory_use().live;
        on_simulated_ranks(network, [&](Comm& comm) {
          const int64_t sent = comm.use().bytes;
          tree_sum(comm, shards, layouts, [&](int, const OnReady& ready) {
            ShardSum sum{Tensor::scalar(1, Dtype::f64), 1, {}};
            for (const Tensor& like : layouts) sum.grads.push_back(Tensor::ones(like.shape()));
            // Ranks hold about the same at about the same time, but not together.
            const auto live = static_cast<int64_t>(memory_use().live - before);
            for (int64_t seen = most; live > seen && !most.compare_exchange_weak(seen, live);) {
            }
            if (ready)
              for (size_t i = 0; i < 2; ++i) ready(i, sum.grads[i]);
            return sum;
          });
          const auto k =
              std::count_if(order.nodes.begin(), order.nodes.end(),
                            [&](const TreeOrder::Node& node) { return node.rank == comm.rank(); });
          const double bound = (static_cast<double>(k) + 1) * (ranks - 1) / ranks * 4 * count;
          CHECK(static_cast<double>(comm.use().bytes - sent) <= 1.01 * bound);
          CHECK(static_cast<double>(comm.use().bytes - sent) >= 0.99 * bound);
        });
        CHECK(static_cast<double>(most) <=
              ranks * (std::log2(shards) + 2) * 4 * static_cast<double>(count));
      }
  }

  TEST_CASE("the bits of a step depend on the shards, never on the ranks") {
    for (int shards : {3, 8, 24}) {
      CAPTURE(shards);
      const Trained alone = trained(single_process(), shards, 4);
      CHECK(alone.losses.back() < alone.losses.front());
      for (int ranks : {2, 3, 4, 6, 8}) {
        if (ranks > shards) continue;
        CAPTURE(ranks);
        SimulatedNetwork network(ranks);
        on_simulated_ranks(network, [&](Comm& comm) {
          for (Steps order : {Steps::one_by_one, Steps::ahead}) {
            const Trained found = trained(comm, shards, 4, SendAs::exact, State::whole, order);
            CHECK(found.losses == alone.losses);
            CHECK((found.values == alone.values));
          }
        });
      }
    }
  }

  TEST_CASE("steps that go on while the next begins have the same bits with Adafactor, too") {
    const auto run = [](Comm& comm, int shards, Steps order) {
      return trained(comm, shards, 5, SendAs::exact, State::whole, order, /*with_adafactor=*/true);
    };
    const Trained alone = run(single_process(), 6, Steps::ahead);
    CHECK((run(single_process(), 6, Steps::one_by_one).values == alone.values));
    for (int ranks : {2, 3, 4}) {
      CAPTURE(ranks);
      SimulatedNetwork network(ranks);
      on_simulated_ranks(network, [&](Comm& comm) {
        const Trained found = run(comm, 6, Steps::ahead);
        CHECK(found.losses == alone.losses);
        CHECK((found.values == alone.values));
      });
    }
  }

  TEST_CASE("the sum of a parameter is there when it was waited for") {
    Leaves leaves;
    for (Index rows : {500, 1000, 700})  // of several buckets
      leaves.layouts.push_back(Tensor::zeros({rows, 300}));
    const ShardSum whole = tree_sum(single_process(), 6, leaves.layouts, leaves);
    for (int ranks : {2, 3}) {
      CAPTURE(ranks);
      SimulatedNetwork network(ranks);
      on_simulated_ranks(network, [&](Comm& comm) {
        ArrivingSum sum(comm, 6, leaves.layouts, leaves);
        CHECK(sum.total().tokens == whole.tokens);
        const auto [loss, squares] = sum.numbers();
        CHECK(loss == whole.loss.item());
        CHECK(squares == sums_of_squares(whole.grads, cpu()).values());
        for (size_t i = 0; i < leaves.layouts.size(); ++i) {
          sum.wait(i);
          CHECK(bits_of(sum.total().grads[i]) == bits_of(whole.grads[i]));
        }
        sum.wait();
      });
    }
  }

  TEST_CASE("a step that goes ahead leaves its update to the next one, or to who settles it") {
    for (int ranks : {2, 3}) {
      CAPTURE(ranks);
      SimulatedNetwork network(ranks);
      on_simulated_ranks(network, [&](Comm& comm) {
        TinyRun run;
        bool reads_old = false;
        std::string before;
        run.model.spoil = [&](const Forward& forward, const Tensor& H) {
          reads_old = bits_of(forward.params.get()) == before;
          return H;
        };
        const auto optimizer = adam(run.model.params.specs());
        Stepper stepper(run.model.objective, run.data, *optimizer, comm,
                        {.batch = 6, .shards = ranks});
        before = bits_of(run.values);
        const int64_t sent = comm.use().bytes;
        stepper.run_ahead(0, run.values, 1e-2);
        CHECK((bits_of(run.values) == before));
        const int64_t ahead = comm.use().bytes - sent;
        stepper.settle(run.values);
        CHECK((bits_of(run.values) != before));
        CHECK(comm.use().bytes - sent > ahead);
        before = bits_of(run.values);
        stepper.run_ahead(1, run.values, 1e-2);
        CHECK((bits_of(run.values) == before));
        stepper.run_ahead(2, run.values, 1e-2);
        CHECK((bits_of(run.values) != before));
        CHECK(!reads_old);  // a forward pass of step 2 has read new values
        stepper.settle(run.values);
      });
    }
  }

  TEST_CASE("an optimizer that is divided among ranks has the bits of a whole one") {
    const Trained alone = trained(single_process(), 24, 4);
    for (int ranks : {2, 3, 4, 6, 8, 24}) {
      CAPTURE(ranks);
      SimulatedNetwork network(ranks);
      std::atomic<size_t> state = 0;
      on_simulated_ranks(network, [&](Comm& comm) {
        const Trained found = trained(comm, 24, 4, SendAs::exact, State::divided);
        CHECK(found.losses == alone.losses);
        CHECK((found.values == alone.values));
        // Two moments of a number take 8 bytes, and no rank has a row more than its share.
        CHECK(found.state <= alone.state / static_cast<size_t>(ranks) + 8 * row_of_squares);
        CHECK(found.state > 0);
        state += found.state;
      });
      CHECK(state == alone.state);
    }
  }

  TEST_CASE(
      "checkpoints of a divided optimizer are those of a whole one, and it goes on from them") {
    const TemporaryFolder folder;
    const auto options = [&](const char* name) {
      LoopOptions made = options_of(folder / name);
      made.step.clip = 0.5;
      return made;
    };
    const auto run = [&](int ranks, const LoopOptions& run_options, State state, int64_t stop_at) {
      for (const std::string& error : run_on_ranks(ranks, run_options, stop_at, {}, state))
        CHECK(error == "");
    };
    run(1, options("alone"), State::whole, -1);
    run(3, options("divided"), State::divided, -1);
    LoopOptions resumed = options("resumed");
    run(4, resumed, State::divided, 2);
    resumed.resume = resumed.folder;
    run(1, resumed, State::whole, 4);
    run(6, resumed, State::divided, 7);
    run(2, resumed, State::whole, 8);
    run(3, resumed, State::divided, -1);
    for (const char* name : {"divided", "resumed"}) {
      CAPTURE(name);
      CHECK((read_file(folder / (std::string(name) + "/" + checkpoint_name(9))) ==
             read_file(folder / ("alone/" + checkpoint_name(9)))));
      CHECK(timeless(folder / (std::string(name) + "/metrics.jsonl")) ==
            timeless(folder / "alone/metrics.jsonl"));
    }
  }

  TEST_CASE("gradients that are sent as bfloat16 are the same on all ranks, and nearly right") {
    const Trained exact = trained(single_process(), 8, 4);
    SimulatedNetwork network(4);
    std::vector<Trained> found(4);
    on_simulated_ranks(network, [&](Comm& comm) {
      found[static_cast<size_t>(comm.rank())] = trained(comm, 8, 4, SendAs::bf16);
    });
    for (const Trained& each : found) {
      CHECK((each.values == found[0].values));
      CHECK((each.values != exact.values));
      CHECK(each.losses.back() == doctest::Approx(exact.losses.back()).epsilon(0.01));
    }
  }

  TEST_CASE("checkpoints and logs of a run are the same on 1, 2, 3, 4, 6 and 8 ranks") {
    const TemporaryFolder folder;
    const auto expect_like_alone = [&](const std::string& name) {
      CAPTURE(name);
      CHECK(read_file(folder / (name + "/" + checkpoint_name(9))) ==
            read_file(folder / ("alone/" + checkpoint_name(9))));
      CHECK(timeless(folder / (name + "/metrics.jsonl")) ==
            timeless(folder / "alone/metrics.jsonl"));
    };
    run_on_ranks(1, options_of(folder / "alone"));
    for (int ranks : {2, 3, 4, 6, 8}) {
      for (const std::string& error : run_on_ranks(ranks, options_of(folder / text(ranks))))
        CHECK(error == "");
      expect_like_alone(text(ranks));
    }
    // The last rank is asked to stop; all do, at one step, and another number of them goes on.
    LoopOptions options = options_of(folder / "resumed");
    run_on_ranks(2, options, 2);
    options.resume = options.folder;
    run_on_ranks(3, options, 5);
    CHECK(saved_steps(options.folder)[0] == 5);
    run_on_ranks(1, options);
    expect_like_alone("resumed");
    // Or in the first of the turns of a validation, at step 4; all leave it, and owe it.
    options = options_of(folder / "cut");
    run_on_ranks(2, options, -1, {}, {}, [stopped = false](bool training) mutable {
      if (!training && !std::exchange(stopped, true)) StopSignals::request();
    });
    CHECK(read_state(Safetensors(folder / ("cut/" + checkpoint_name(4)))).owes_validation);
    options.resume = options.folder;
    run_on_ranks(3, options);
    expect_like_alone("cut");
  }

  TEST_CASE("what fails on one rank in a step ends all, and what was done is kept") {
    const TemporaryFolder folder;
    run_on_ranks(1, options_of(folder / "alone"));
    const std::string right = read_file(folder / ("alone/" + checkpoint_name(9)));
    for (int ranks : {1, 2, 3})
      for (int failing : {0, 3, -1}) {  // a batch of step 6, after 5 that went ahead; a validation
        CAPTURE(ranks);
        CAPTURE(failing);
        LoopOptions options = options_of(folder / text("run", ranks, "_", failing));
        const int batches = 5 * 24 / ranks + failing;
        const auto fail = [&, training_batches = 0](bool training) mutable {
          const bool fails = training ? failing >= 0 && training_batches++ == batches : failing < 0;
          if (fails) bad_input("the text was written to");
        };
        const int64_t done = failing < 0 ? 4 : 5;
        const std::vector<std::string> errors = run_on_ranks(ranks, options, -1, {}, {}, fail);
        for (const std::string& error : errors) {
          CAPTURE(error);
          CHECK(error.find("the text was written to") != std::string::npos);
          CHECK((error.find(text("rank ", ranks - 1, " (")) == 0) == (ranks > 1));
        }
        CHECK(errors[0].find("to; the state before it is saved in ") != std::string::npos);
        CHECK(saved_steps(options.folder)[0] == done);
        options.resume = options.folder;
        for (const std::string& error : run_on_ranks(4, options)) CHECK(error == "");
        CHECK((read_file(options.folder + "/" + checkpoint_name(9)) == right));
        CHECK(timeless(options.folder + "/metrics.jsonl") ==
              timeless(folder / "alone/metrics.jsonl"));
      }
  }

  TEST_CASE("a model that cannot write on the first rank ends all, who owe the validation") {
    const TemporaryFolder folder;
    LoopOptions options = options_of(folder / "run");
    const auto failing = [](int rank, LoopOptions& mine, Tensors&) {
      mine.write = [rank](const Tensors&) -> std::vector<WrittenText> {
        if (rank == 0) fail(ErrorKind::resource, "there is not enough memory to write");
        return {};
      };
    };
    for (const std::string& error : run_on_ranks(3, options, -1, failing))
      CHECK(error.find("rank 0 (") == 0);
    CHECK(saved_steps(options.folder)[0] == 4);
    run_on_ranks(1, options_of(folder / "alone"));
    options.resume = options.folder;
    for (const std::string& error : run_on_ranks(2, options)) CHECK(error == "");
    CHECK(timeless(options.folder + "/metrics.jsonl") == timeless(folder / "alone/metrics.jsonl"));
  }

  TEST_CASE("ranks that differ are refused with a table") {
    const TemporaryFolder folder;
    const auto change = [](int rank, LoopOptions& options, Tensors&) {
      if (rank == 1) options.config = "{\"batch\":3}", options.program = "tete 9";
    };
    for (const std::string& error : run_on_ranks(3, options_of(folder / "run"), -1, change)) {
      CAPTURE(error);
      CHECK(error.find("the ranks of this run differ:") != std::string::npos);
      CHECK(error.find("configuration  rank 1 (") != std::string::npos);
      CHECK(error.find("): {\"batch\":3}") != std::string::npos);
      CHECK(error.find("program  rank 0 (") != std::string::npos);
      CHECK(error.find("kernels") == std::string::npos);
    }
    CHECK(saved_steps(folder / "run").empty());
  }

  TEST_CASE("a copy that differs is named, before it is saved") {
    const TemporaryFolder folder;
    const auto flip = [](int rank, LoopOptions&, Tensors& values) {
      if (rank != 2) return;
      values[0] = values[0] * 1;
      values[0].host_bytes()[5] ^= std::byte(1);
    };
    for (const std::string& error : run_on_ranks(4, options_of(folder / "run"), -1, flip)) {
      CAPTURE(error);
      CHECK(error.find("after step 0 the parameters of rank 2 (") != std::string::npos);
      CHECK(error.find("differ from those of the others") != std::string::npos);
    }
    CHECK(saved_steps(folder / "run").empty());
  }

  TEST_CASE("a NaN on one rank ends all of them, with its name and nothing changed") {
    SimulatedNetwork network(3);
    on_simulated_ranks(network, [&](Comm& comm) {
      TinyRun run;
      int64_t step = 0;
      run.model.spoil = [&](const Forward&, const Tensor& H) {
        return comm.rank() == 1 && step == 2 ? H * std::nan("") : H;
      };
      const auto optimizer = adam(run.model.params.specs());
      Stepper stepper(run.model.objective, run.data, *optimizer, comm, {.batch = 6, .shards = 6});
      for (; step < 2; ++step) stepper.run_ahead(step, run.values, 1e-2);
      TinyRun alone;
      const auto right = adam(alone.model.params.specs());
      Stepper other(alone.model.objective, alone.data, *right, single_process(),
                    {.batch = 6, .shards = 6});
      for (int64_t s = 0; s < 2; ++s) other.run(s, alone.values, 1e-2);
      const std::string before = bits_of(alone.values);
      const std::string error =
          error_of(ErrorKind::numbers, [&] { stepper.run(step, run.values, 1e-2); });
      CAPTURE(error);
      CHECK(error.find("the numbers went wrong in step 3: ") == 0);
      CHECK(error.find("the first value that is not finite is 'layer/0/H', f32[1, 8, 6]: 48 NaN") !=
            std::string::npos);
      CHECK(error.find(" on rank 1 (") != std::string::npos);
      CHECK((bits_of(run.values) == before));
    });
  }

  TEST_CASE("what fails on one rank is told to all") {
    SimulatedNetwork network(3);
    on_simulated_ranks(network, [&](Comm& comm) {
      const auto failing = [&](const std::vector<int>& ranks) {
        return error_of(ErrorKind::resource, [&] {
          together(comm, [&] {
            if (std::count(ranks.begin(), ranks.end(), comm.rank()))
              fail(ErrorKind::resource, "the disk is full");
          });
        });
      };
      CHECK(failing({1}) == comm.name_of(1) + ": the disk is full");
      CHECK(failing({0, 1, 2}) == "the disk is full");
      CHECK(all_max(comm, comm.rank() == 1 ? 7 : -3) == 7);
      CHECK(comm.all_gather(std::string(static_cast<size_t>(comm.rank()), 'x')) ==
            std::vector<std::string>{"", "x", "xx"});
    });
  }

  TEST_CASE("after any of 1,000 faults a sum is right, or an error names a rank of the link") {
    // Delays alone harm nothing. Seeds are those of the failures that are told.
    const Leaves leaves;
    const std::string expected =
        bits_of(tree_sum(single_process(), 6, leaves.layouts, leaves), leaves.layouts);
    constexpr int runs = 1000, at_once = 20;
    std::array<std::atomic<int>, 5> happened = {};
    std::mutex mutex;
    std::vector<std::string> failures;
    const auto run = [&](int seed) {
      const Key key(static_cast<uint64_t>(seed));
      const int ranks = 2 + static_cast<int>(uniform_below(key, 0, 3));
      const int faulty = static_cast<int>(uniform_below(key, 1, static_cast<uint64_t>(ranks)));
      const auto fault = static_cast<Fault>(1 + seed % 4);
      SimulatedNetwork network(ranks);
      // The fault hits a message after the four exchanges of the start, each with as many steps.
      const auto steps = static_cast<int64_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
      const int64_t least = 4 * 2 * steps, some = 9 * 2 * steps;
      network.plan(faulty, fault,
                   least + static_cast<int64_t>(uniform_below(key, 2, static_cast<uint64_t>(some))),
                   key.fold("fault"));
      std::atomic<bool> right = true, named = false, failed = false;
      on_simulated_ranks(network, [&](Comm& comm) {
        comm.set_patience(fault == Fault::delay ? 60 : 0.3);
        comm.all_gather(std::string("begin"));
        try {
          for (int step = 0; step < 3; ++step) {
            ArrivingSum sum(comm, 6, leaves.layouts, leaves);
            all_max(comm, step);  // while parts of the sum are held back
            std::string found = bits_of(sum.total().loss) + text(sum.total().tokens);
            for (size_t i = 0; i < leaves.layouts.size(); ++i) found += bits_of(sum.take(i)) + "|";
            sum.wait();
            if (found != expected) right = false;
          }
          all_max(comm, 0);  // who is done stays until all are
        } catch (const Error& error) {
          if (fault == Fault::kill && comm.rank() == faulty) return;
          failed = true;
          const std::string words = error.what();
          const auto names = [&](int rank) {
            return words.find(text("rank ", rank, " (")) != std::string::npos ||
                   words.find(text("rank ", rank, " sent")) != std::string::npos;
          };
          // Of a link that lost a message, both ends wait for the other.
          if (names(faulty) || (fault == Fault::drop && names(network.meant_for()))) named = true;
          network.abort();
        }
      });
      if (network.happened()) ++happened[static_cast<size_t>(fault)];
      const bool good = right && (!failed || (named && fault != Fault::delay));
      std::lock_guard lock(mutex);
      if (!good)
        failures.push_back(text("seed ", seed, ": fault ", static_cast<int>(fault), " of rank ",
                                faulty, " of ", ranks, right ? "" : ", wrong sum",
                                failed && !named ? ", not named" : ""));
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < at_once; ++t)
      threads.emplace_back([&, t] {
        for (int seed = t; seed < runs; seed += at_once) run(seed);
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& failure : failures) FAIL_CHECK(failure);
    for (Fault fault : {Fault::delay, Fault::drop, Fault::kill, Fault::corrupt})
      CHECK(happened[static_cast<size_t>(fault)] >= 200);
  }

  TEST_CASE("a rank that is not heard of is named with its last step") {
    SimulatedNetwork network(3);
    on_simulated_ranks(network, [&](Comm& comm) {
      all_max(comm, 1);
      if (comm.rank() == 1) return;
      comm.set_step(41);
      comm.set_patience(0.2);
      const std::string error = error_of(ErrorKind::peer, [&] { all_max(comm, 2); });
      CHECK(error.find("no sign for 0.2 s of rank 1 (") == 0);
      CHECK(error.find("whose last step was 41;") != std::string::npos);
    });
  }

  TEST_CASE("ranks divide the cores that they were given, and too few of them are told") {
    const auto ranks = [](std::vector<std::pair<const char*, std::string>> given, int of_host,
                          int threads = 1) {
      std::vector<RankCores> all;
      for (const auto& [host, cores] : given) {
        RankCores& each = all.emplace_back();
        std::strcpy(each.host, host);
        each.usable = std::bitset<1024>(cores);
        each.of_host = of_host, each.threads = threads;
      }
      return all;
    };
    const auto unbound = ranks({{"a", "1111"}, {"a", "1111"}, {"b", "1111"}}, 4, 2);
    CHECK(share_of_cores(unbound, 0) == 2);
    CHECK(share_of_cores(unbound, 2) == 4);
    CHECK(core_warnings(unbound).empty());
    CHECK(core_warnings(ranks({{"a", "01"}, {"a", "10"}}, 2)).empty());
    const auto told = [](const std::vector<RankCores>& all) {
      const std::vector<std::string> sentences = core_warnings(all);
      return sentences.size() == 1 ? sentences[0] : text(sentences.size(), " sentences");
    };
    CHECK(told(ranks({{"a", "11"}, {"a", "11"}, {"a", "11"}}, 2))
              .find("ranks 0, 1 and 2 on a share 2 cores with 3 threads and wait") == 0);
    CHECK(told(ranks({{"a", "01"}, {"a", "01"}}, 8)).find("ranks 0 and 1 on a share 1 core") == 0);
    CHECK(told(ranks({{"a", "11"}, {"a", "11"}}, 2, 2)).find("share 2 cores with 4 threads") !=
          std::string::npos);
    CHECK(told(ranks({{"a", "01"}, {"b", "11"}}, 8))
              .find("the launcher bound rank 0 to 1 of the 8 cores of a, so it computes with one "
                    "thread") == 0);
  }

  TEST_CASE("the shards of a launched run follow from its batch alone") {
    const std::pair<int64_t, int> table[] = {{1, 1}, {3, 2}, {7, 4}, {12, 8}, {23, 8}, {512, 24}};
    for (const auto& [batch, shards] : table) CHECK(shards_for_ranks(batch) == shards);
  }

  TEST_CASE("the expected time of a step is that of the model by hand") {
    // 25 M parameters, 100 MB in 48 buckets: 48 messages of 1 ms and 50 MB at 1 GB/s, both ways.
    CHECK(bucket_size(25'000'000, 2) == 520'834);
    const ScalingModel model{25e6, 1000, 1e12, {1e-3, 1e9, 0.02}};
    const StepForecast two = predict(model, 2);
    CHECK(two.compute == doctest::Approx(0.15));
    CHECK(two.exchange == doctest::Approx(2 * (48e-3 + 0.05)));
    // All of the scatter but the last bucket is hidden by 0.1 s, and of the gather by 0.05 s.
    CHECK(two.exposed == doctest::Approx(1e-3 + 0.05 * 520'834 / 25e6 + 48e-3 + 0.05 - 0.05));
    CHECK(two.late == doctest::Approx(0.02 * std::sqrt(2 * std::log(2.0)) * 0.15));
    CHECK(two.weak_efficiency ==
          doctest::Approx(two.compute / (two.compute + two.exposed + two.late)));
    CHECK(exchange_seconds(25e6, model.link, 2) == doctest::Approx(two.exchange));
    // On 3 ranks a rank has 3 nodes of the tree of 24 shards.
    CHECK(predict(model, 3).exchange == doctest::Approx(2 * 2 * 48e-3 + 4 * 0.1 * 2 / 3));
    // A power of two takes log2 P messages.
    CHECK(exchange_seconds(25e6, model.link, 1024) ==
          doctest::Approx(2 * (4 * 10e-3 + 0.1 * 1023 / 1024)));  // in 4 buckets
    CHECK(predict(model, 8).exchange == doctest::Approx(2 * (48 * 3e-3 + 0.1 * 7 / 8)));
  }
}
