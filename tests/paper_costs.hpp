// The costs of variants in the papers' tables, and those that the published texts come to.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/shape.hpp"

namespace tete {

// A row of the talking-heads paper (2020), at n = m = 512, d_X = d_M = d_Y = 768. Its appendix has
// tables 11 to 13, too, which repeat these configurations.
struct PaperCost {
  const char *table, *row, *variant;
  struct {
    Index h_k, h, h_v, d_k, d_v;
  } sizes;
  Index parameters, multiplies;  // of the published text, every einsum counted in full
  bool is_printed;               // the paper prints both
  double printed;                // multiplies, to four digits
  Index left_out;                // of `multiplies` by the paper's own convention
};

// clang-format off
inline constexpr PaperCost paper_costs[] = {
    {"T1", "multi-head", "multi_head", {6, 6, 6, 128, 128}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T1", "multi-head", "multi_head", {12, 12, 12, 64, 64}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T1", "multi-head", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T1", "multi-head", "multi_head", {48, 48, 48, 16, 16}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T1", "talking-heads", "talking_heads", {6, 6, 6, 128, 128}, 2359368, 1629487104, true, 1.629e+09, 0},
    {"T1", "talking-heads", "talking_heads", {12, 12, 12, 64, 64}, 2359584, 1686110208, true, 1.686e+09, 0},
    {"T1", "talking-heads", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, true, 1.913e+09, 0},
    {"T1", "talking-heads", "talking_heads", {48, 48, 48, 16, 16}, 2363904, 2818572288, true, 2.819e+09, 0},
    {"T1", "multi-head", "multi_head", {24, 24, 24, 64, 64}, 4718592, 3221225472, true, 3.221e+09, 0},
    {"T1", "general bilinear", "general_bilinear", {12, 12, 12, 768, 768}, 14155776, 12079595520, true, 7.65e+09, 4429185024},
    {"T1", "[Raffel et al.] multi-head", "multi_head", {12, 12, 12, 64, 64}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T2", "talking-heads", "talking_heads", {6, 6, 6, 128, 128}, 2359368, 1629487104, true, 1.629e+09, 0},
    {"T2", "talking-heads", "talking_heads", {6, 24, 6, 128, 128}, 2359584, 1686110208, true, 1.686e+09, 0},
    {"T2", "talking-heads", "talking_heads", {24, 6, 24, 32, 32}, 2359584, 1686110208, true, 1.686e+09, 0},
    {"T2", "talking-heads", "talking_heads", {6, 24, 24, 128, 32}, 2360016, 1799356416, true, 1.799e+09, 0},
    {"T2", "talking-heads", "talking_heads", {24, 24, 6, 32, 128}, 2360016, 1799356416, true, 1.799e+09, 0},
    {"T2", "talking-heads", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, true, 1.913e+09, 0},
    {"T3", "multi-head", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T3", "project logits", "project_logits", {24, 24, 24, 32, 32}, 2359872, 1761607680, true, 1.762e+09, 0},
    {"T3", "project weights", "project_weights", {24, 24, 24, 32, 32}, 2359872, 1761607680, true, 1.762e+09, 0},
    {"T3", "talking-heads", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, true, 1.913e+09, 0},
    {"T4", "multi-head", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T4", "TH-enc-self: enc-self layer", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, false, 0, 0},
    {"T4", "TH-enc-self: dec-self + enc-dec layers", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, false, 0, 0},
    {"T4", "TH-dec-self: dec-self layer", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, false, 0, 0},
    {"T4", "TH-dec-self: enc-self + enc-dec layers", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, false, 0, 0},
    {"T4", "TH-encdec: enc-dec layer", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, false, 0, 0},
    {"T4", "TH-encdec: enc-self + dec-self layers", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, false, 0, 0},
    {"T4", "talking-heads", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, true, 1.913e+09, 0},
    {"T5", "multi-head", "multi_head", {6, 6, 6, 128, 128}, 2359296, 1610612736, false, 0, 0},
    {"T5", "multi-head", "multi_head", {12, 12, 12, 64, 64}, 2359296, 1610612736, false, 0, 0},
    {"T5", "multi-head", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, false, 0, 0},
    {"T5", "multi-head", "multi_head", {48, 48, 48, 16, 16}, 2359296, 1610612736, false, 0, 0},
    {"T5", "talking-heads", "talking_heads", {6, 6, 6, 128, 128}, 2359368, 1629487104, false, 0, 0},
    {"T5", "talking-heads", "talking_heads", {12, 12, 12, 64, 64}, 2359584, 1686110208, false, 0, 0},
    {"T5", "talking-heads", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, false, 0, 0},
    {"T5", "talking-heads", "talking_heads", {48, 48, 48, 16, 16}, 2363904, 2818572288, false, 0, 0},
    {"T6", "multi-head", "multi_head", {12, 12, 12, 64, 64}, 2359296, 1610612736, false, 0, 0},
    {"T6", "logit-project-only", "project_logits", {12, 12, 12, 64, 64}, 2359440, 1648361472, false, 0, 0},
    {"T6", "weight-project-only", "project_weights", {12, 12, 12, 64, 64}, 2359440, 1648361472, false, 0, 0},
    {"T6", "talking-heads", "talking_heads", {12, 12, 12, 64, 64}, 2359584, 1686110208, false, 0, 0},
    {"T7", "multi-head", "multi_head", {12, 12, 12, 64, 64}, 2359296, 1610612736, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {6, 6, 6, 128, 128}, 2359368, 1629487104, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {12, 12, 12, 64, 64}, 2359584, 1686110208, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {48, 48, 48, 16, 16}, 2363904, 2818572288, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {64, 64, 64, 12, 12}, 2367488, 3758096384, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {96, 96, 96, 8, 8}, 2377728, 6442450944, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {192, 192, 192, 4, 4}, 2433024, 20937965568, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {384, 384, 384, 2, 2}, 2654208, 78920024064, false, 0, 0},
    {"T7", "talking-heads", "talking_heads", {768, 768, 768, 1, 1}, 3538944, 310848258048, false, 0, 0},
    {"T8", "multi-head", "multi_head", {12, 12, 12, 64, 64}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T8", "talking-heads", "talking_heads", {12, 12, 12, 64, 64}, 2359584, 1686110208, true, 1.686e+09, 0},
    {"T8", "dyn. proj. (all four)", "dynamic_projections", {12, 12, 12, 64, 64}, 2801952, 2063597568, true, 1.913e+09, 150994944},
    {"T8", "multi-head", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T8", "talking-heads", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, true, 1.913e+09, 0},
    {"T8", "dyn. proj. (all four)", "dynamic_projections", {24, 24, 24, 32, 32}, 4129920, 3422552064, true, 2.819e+09, 603979776},
    {"T9", "talking-heads", "talking_heads", {12, 12, 12, 64, 64}, 2359584, 1686110208, true, 1.686e+09, 0},
    {"T9", "dyn. proj. P_Xl", "dynamic_Xl", {12, 12, 12, 64, 64}, 2470176, 1780482048, true, 1.743e+09, 37748736},
    {"T9", "dyn. proj. P_Xw", "dynamic_Xw", {12, 12, 12, 64, 64}, 2470176, 1780482048, true, 1.743e+09, 37748736},
    {"T9", "dyn. proj. P_Ml", "dynamic_Ml", {12, 12, 12, 64, 64}, 2470176, 1780482048, true, 1.743e+09, 37748736},
    {"T9", "dyn. proj. P_Mw", "dynamic_Mw", {12, 12, 12, 64, 64}, 2470176, 1780482048, true, 1.743e+09, 37748736},
    {"T9", "dyn. proj. (all four)", "dynamic_projections", {12, 12, 12, 64, 64}, 2801952, 2063597568, true, 1.913e+09, 150994944},
    {"T10", "multi-head", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, true, 1.611e+09, 0},
    {"T10", "TH-enc-self: enc-self layer", "talking_heads", {24, 24, 24, 32, 32}, 2360448, 1912602624, false, 0, 0},
    {"T10", "TH-enc-self: other layers", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, false, 0, 0},
    {"T10", "DP-enc-self: enc-self layer", "dynamic_projections", {24, 24, 24, 32, 32}, 4129920, 3422552064, false, 0, 603979776},
    {"T10", "DP-enc-self: other layers", "multi_head", {24, 24, 24, 32, 32}, 2359296, 1610612736, false, 0, 0},
};
// clang-format on

// Other variants at the same setting, h = 12: the count of their papers' formulas, with tables for
// 512 positions. A text that weighs two logits learns two numbers more than its paper counts.
struct FormulaCost {
  const char* variant;
  std::vector<std::pair<std::string, Index>> sizes;
  Index parameters, multiplies;
  Index weights = 0;  // that a mixture learns besides
};

inline const FormulaCost formula_costs[] = {
    {"dot_product", {}, 0, 402653184},
    {"dot_product_projected", {{"d_k", 64}, {"d_v", 64}}, 196608, 134217728},
    {"multi_query", {}, 1277952, 1056964608},
    {"grouped_query", {{"g", 1}}, 1277952, 1056964608},
    {"shared_kv", {}, 1769472, 1308622848},
    {"fixed_random_synthesizer", {}, 1179648, 805306368},
    {"random_synthesizer", {}, 4325376, 805306368},
    {"factorized_random_synthesizer", {{"r", 16}}, 1376256, 855638016},
    {"dense_synthesizer", {}, 2162688, 1308622848},
    {"dense_minus", {}, 1802240, 1308622848},
    {"factorized_dense_synthesizer", {{"a", 16}, {"b", 32}}, 1806336, 1129316352},
    {"dense_plus_dot", {}, 3342336, 2113929216, 2},
    {"random_plus_dot", {}, 5505024, 1610612736, 2},
    {"random_plus_dense", {}, 5308416, 1308622848, 2},
    {"factorized_random_plus_dense", {{"r", 16}}, 2359296, 1358954496, 2},
    {"dense_plus", {}, 2392064, 1811939328},
    {"bottleneck_synthesizer", {{"e", 16}}, 1425408, 931135488},
    {"conv_synthesizer", {{"w", 3}}, 3342336, 1912602624},
    {"linformer", {{"r", 256}}, 2621440, 1610612736},
    {"memory_compressed", {{"w", 3}}, 2654208, 1391788032},
    {"general", {}, 1179648, 1006632960},
    {"additive", {{"a", 768}}, 1180416, 1006632960},
};

}  // namespace tete
