// Report: everything that the page of `tete inspect` shows, as numbers and words. inspect() fills
// it from checkpoints; pages, tables and pictures are made of it and compute nothing of their own
// but differences. What is empty is not shown, so a report may have as little as curves.
//
//   report ─ runs: one, or two that are laid side by side
//     run ─ texts: of its variants, line by line       ─ curves, samples: what its log tells
//         ─ frames: one a checkpoint; several make a slider
//       frame ─ sites: each attention of the model, with its maps, heads and mixing matrices
//             ─ predictions, lens: what follows each token
//             ─ changes: what they are without a head, or with another run's values
//             ─ circuits: what a head does with tokens as such
//             ─ attribution: what each head and layer adds to a logit
//
// Tensors are row-major f32 on the CPU (tokens: i64), without a batch: of the one text that was
// given. Where a number is not defined it is NaN; the page shows a dash.
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace tete {

inline constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

// A sequence of tokens that attends or is attended to.
struct TokenSequence {
  std::string name;             // "text"; with an encoder "source" and "answer", or "own answer"
  std::vector<int64_t> tokens;  // numbers of the run's vocabulary
};

// One intermediate as a picture a head: J, L, W, U, or whatever else the text has of two sequences.
// Further axes, A[n, m, s, h], count with the heads: the pictures of s=0 stand first.
struct AttentionMap {
  std::string name;   // as in the text: "W"
  std::string path;   // in --save's file: "decoder/3/A/W"
  std::string heads;  // the names of its dimensions: "h_k", "h" or "h_v"; "" where it has no heads
  std::string rows;   // "n"
  std::string columns;  // "m"
  Tensor values;        // [pictures, rows, columns]; one picture where it has no heads
  // Its other axes, outermost first, and their sizes; heads are the last pictures / their product.
  std::vector<std::pair<std::string, Index>> outer = {};
  bool weights = false;  // what a softmax over the columns gave: 0 … 1, each row sums to 1 or to 0
  // True if rows and columns are the tokens of the site's sequences. Linformer's columns, say, are
  // not: they are numbered.
  bool row_tokens = true, column_tokens = true;
  std::string unmeasured = {};  // a sentence: why it has no measures; "" where it has
  std::string meaning = {};     // "L is J, its heads mixed by P_l. It is the logit of W."
};

// One map in the expression of another. Where heads are mixed, the sum of the mixers is what of
// each head of `from` is in each of `to`; else each head is for itself.
struct MapTie {
  std::string from, to;  // AttentionMap::name
  std::string by;        // the functions and factors between them: "softmax", "− × l"
  // [queries, keys or 1; heads of from; heads of to], scaled as the text does; `heads` is the name
  // of the sequence: "n", "m", or "".
  std::vector<AttentionMap> mixers = {};
  bool is_unknown = false;  // an expression without a name mixes them
};

// A learned matrix that mixes heads, or a product of two, and how far it is from losing something.
// Where it is not square there is no determinant and no eigenvalue.
struct Mixing {
  std::string name;           // "P_l", "P_w", "P_l×P_w"
  std::string path;           // the parameter's: "decoder/3/A/P_l"; "" for a product
  std::string rows, columns;  // names of its dimensions: "h_k", "h"
  Tensor values;              // [rows, columns] as learned; the page divides by the largest |entry|
  double determinant = undefined;
  double condition = undefined;            // largest / smallest singular value
  double smallest_eigenvalue = undefined;  // the smallest |eigenvalue|
};

// How often values of a map lie where, as the Synthesizer paper's figures 2 and 3 count them.
// Entries that a mask hides are not counted, nor is the 1 of a softmax's row that sees one column.
struct Histogram {
  std::string map;           // "W"
  double low = 0, high = 1;  // the ends of the first and the last bin; all are equally wide
  Tensor counts;             // [heads, bins]
};

// One number a picture of a map: "entropy", "distance", "previous token", "induction", …
struct HeadStatistic {
  std::string map;  // AttentionMap::name
  std::string name;
  std::string meaning;           // one sentence, with the formula
  std::string unit;              // "nats", "tokens"; "" for a pure number
  Tensor values;                 // [pictures of the map]
  std::vector<Index> rows = {};  // of each picture the row that shows it most; -1: none
};
// As tables and findings tell it.
inline constexpr const char* ablation_meaning =
    "What the loss gains when this head of the tensor is set to zero.";

// Any named value of a site, for the lines of the text: its shape and what its numbers are like.
struct SiteValue {
  std::string name;  // as in the text: "Q", or "P_q" for a parameter
  std::string path;  // "decoder/3/A/Q"
  std::vector<std::string> dims;
  Shape shape;  // their sizes
  double mean = undefined, deviation = undefined, smallest = undefined, largest = undefined;
};

// One attention of the model.
struct Site {
  std::string path;   // "decoder/3/A"
  std::string stack;  // "decoder" or "encoder"
  int64_t layer = 0;
  std::string kind;     // "self" or "cross"
  bool causal = false;  // where rows and columns are tokens, column > row is hidden
  int text = 0;         // which of the run's texts it is
  // The run's sequences that are its rows and its columns.
  int row_sequence = 0, column_sequence = 0;

  std::vector<AttentionMap> maps;    // in the order of the text
  std::string weights;               // the map by which values are summed; "" where it has no name
  std::vector<std::string> unshown;  // sentences: why a value over two sequences is no map
  std::vector<MapTie> ties;          // how maps are made of maps
  std::vector<HeadStatistic> heads;  // of every map that has measures
  std::vector<Mixing> mixing;
  std::vector<Histogram> histograms;
  std::vector<SiteValue> values;  // in the order of the text
  std::string contribution;       // the value that a head adds last before heads are summed: "O"
  std::string contribution_map;   // the last map whose heads are its: "U"; "" where there is none
  Tensor ablation;  // [heads]: the loss without this head of it, minus the loss; nats a token
  // After each token the tokens whose logits a head raises most, i64 [heads, n, k], and what it
  // adds to them, with the last norm's divisor as it is. Empty where a logit is no sum over heads.
  Tensor raised, raised_by;
};

// The tokens that the model expects after each one of a sequence.
struct Predictions {
  int sequence = 0;
  std::string logits;    // the path of what they are the softmax of: "Y"
  Tensor tokens;         // i64 [n, k]: the k likeliest, the likeliest first
  Tensor probabilities;  // [n, k]: those of `tokens`
  // The token that does follow: i64 [n], -1 where it is not known, and its probability [n].
  Tensor next, next_probability;
  double loss = undefined;  // mean of -log next_probability where it is known; nats a token
  Index counted = 0;        // tokens of which that is the mean
};

// Its predictions if the residual stream ended at a point on the way (final norm and output layer
// applied to it).
struct LogitLens {
  int sequence = 0;
  std::vector<std::string> points;  // paths: "B", "decoder/0/B", …
  std::vector<std::string> slots;   // by point: what it adds, "FeedForward"; "" for what fills none
  Tensor tokens;                    // i64 [points, n]: the likeliest
  Tensor probabilities;             // [points, n]: its probability
  Tensor next_probability;          // [points, n]: of the token that does follow; NaN: not known
};

// A mean over texts, and how far they are apart: the sample's standard deviation. Texts where the
// number is not defined are not counted; NaN where none is left, or one for the deviation.
struct Estimate {
  double mean = undefined, deviation = undefined;
};

// The effect of changing a part of a value, beside the run where nothing is changed.
struct ValueChange {
  std::string kind;           // "ablate", "patch" or "steer"
  std::string path;           // "decoder/3/A/O"
  std::string part;           // "[s=1]": places of axes that are neither heads nor positions
  std::string with;           // steer: the file; else ""
  Index head = -1;            // -1: all heads, or there are none
  Index position = -1;        // -1: all
  int sequence = -1;          // whose positions they are; -1: none's
  Estimate loss = {};         // nats a token, more than without the change
  Estimate probability = {};  // of the token that is asked for
  Index texts = 0;            // that have this head and position
};

// The effects of changes of values. Empty if none was asked for.
struct ValueChanges {
  std::vector<ValueChange> rows;
  // Without a change; and of the run that patches are taken from.
  Estimate loss = {}, probability = {}, source_loss = {}, source_probability = {};
  Index texts = 0;
  // The token that is asked for in the first text, and the position after which it is expected.
  int64_t token = -1;
  Index position = -1;
  int sequence = 0;
};

// How much a part of the residual stream adds to the logit that is asked for.
struct Contribution {
  std::string path;  // "decoder/3/A"; "T", the embedding; "bias": what is added behind the stream
  Index head = -1;   // -1: all of it, or what is no head's
  Estimate logit = {};    // with the last norm's divisor as it is
  std::string slot = {};  // that its text fills: "FeedForward"; "" for what fills none
};

// The logit of a token after a position, as a sum over what was added to the residual stream.
struct Attribution {
  std::vector<Contribution> rows;  // in the order in which the model adds them
  Estimate logit = {};             // their sum, which is the logit
  std::string refused = {};        // a sentence: why there is none
  Index texts = 0;
  int64_t token = -1;   // of the first text
  Index position = -1;  // of the first text
};

// The effect of a head on tokens as such, without positions and without earlier layers: the
// embedding goes into its block. Its block's norm is applied.
struct Circuit {
  std::string kind;    // "QK": the logit with which a query of a token looks at a key of another
                       // "OV": what it adds to each token's logit where it looks at one token only
  std::string path;    // "decoder/3/A"
  std::string tensor;  // "L" or "O": what has the heads
  Index head = 0;
  std::vector<int64_t> tokens;  // rows, and columns
  Tensor values;                // [tokens, tokens]
};

// One checkpoint.
struct Frame {
  int64_t step = 0;
  std::vector<Site> sites;  // in the order in which the model goes through them
  std::vector<Predictions> predictions;
  std::vector<LogitLens> lens;
  ValueChanges changes;
  Attribution attribution;
  std::vector<Circuit> circuits;
  std::vector<std::string> without_circuit;  // sentences: which circuits there are not, and why
};

// One line of a variant's text.
struct TextLine {
  std::string code, comment;        // as written; the comment without its "# "
  std::string formula;              // what it costs: "n*m*h*h_k"; "" where it costs nothing
  int64_t number = 0;               // the same, at the sizes of this model and text
  std::vector<std::string> values;  // names of what it defines: SiteValue::name
};

struct VariantText {
  std::string name;  // "talking_heads", or "talking_heads + t5_bias"
  std::vector<TextLine> lines;
};

struct Curve {
  std::string name;   // "loss", "validation loss", "rate", "grad norm/decoder/0/A/P_q"
  std::string group;  // curves of one group share axes: "loss"
  std::string unit;   // "nats a token"; ""
  std::vector<double> steps, values;  // equally many
};

// The text that the model wrote, or answered, when it had been trained so far.
struct WrittenSample {
  int64_t step = 0;
  std::string prompt, text;
};

struct RunReport {
  std::string name;         // the run's folder or the checkpoint, as it was given
  std::string description;  // one line: "a language model, 2 layers, 4 heads, 128 wide, …"
  // The bytes of each token by its number. Of bytes, one may be part of a character only.
  std::vector<std::string> vocabulary;
  std::vector<TokenSequence> sequences;
  std::vector<int64_t> right;  // the task's answer to a source, with its end; empty: it has none
  std::vector<VariantText> texts;
  std::vector<Frame> frames;  // by step; every frame has the same sequences, sites and maps
  std::vector<Curve> curves;
  std::vector<WrittenSample> samples;
};

struct Report {
  std::string title;  // what the page is called
  std::string text;   // as it was given
  std::vector<RunReport> runs;
  std::string saved;    // the file that has the tensors in full; "" where none was asked for
  std::string program;  // program_version()
  int refresh = 0;  // seconds after which the page loads itself again, while a run goes on; 0: no
};

}  // namespace tete
