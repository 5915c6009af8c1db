// inspect: looks into trained models with one text, and writes what was asked for.
#pragma once
#include "tools/inspect/changes.hpp"
#include "tools/inspect/report.hpp"

namespace tete {

struct InspectOptions {
  // One, or two to be laid side by side: checkpoints, or runs' folders.
  std::vector<std::string> checkpoints;
  bool all_steps = false;  // every checkpoint of the folders, not only the newest
  std::string text;
  std::optional<std::string> answer = {};  // with an encoder; not set: what the model answers
  // Globs of the paths of the activations to show; empty: maps and what the page needs.
  std::vector<std::string> paths = {};
  std::string save = {};  // a safetensors file of these activations; "": none
  // The attention ("decoder/3/A") whose inputs, parameters and values are saved instead, under
  // the names of its text, as `tete run` takes them; "": none.
  std::string layer = {};
  bool ablation = true;  // one forward pass for each head
  // A file of texts, one a line, over which changes are averaged. Without `text` the first of them
  // is what is looked at.
  std::string texts = {};
  AskedToken asked = {};
  ChangeOptions changes = {};
  // Attentions, or heads of them, whose circuits are told (tools/inspect/circuits.hpp).
  std::vector<std::string> circuits = {};
  int likeliest = 5;  // next tokens that are told
  Backend* device = &cpu();
};

// Fails (input) on text that the model cannot read: a token that it does not know, more tokens than
// its context, none at all; on globs that match nothing, with the nearest path; and on a layer that
// is none, or of several checkpoints.
Report inspect(const InspectOptions& options);

}  // namespace tete
