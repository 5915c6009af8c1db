// Updates of parameters, as core/update.hpp has them.
#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

bool CardBackend::adam(const View& p, const View& g, const View& m, const View& v,
                       const AdamStep& step) {
  if (!has(p.dtype)) return false;
  // All in one memory order, so that they are flat.
  std::optional<Temporary> copy;
  if (!(g.strides == p.strides)) copy = laid(g, p.strides);
  const std::array windows{window_of(p), window_of(copy ? copy->view() : g), window_of(m),
                           window_of(v)};
  Call call{in(p.dtype, Shader::adam_f32), {group()}, {}, {}, pieces_of(p.size(), group())};
  call.words.add(p.size());
  for (const Window& each : windows) call.words.add(each.first);
  for (double number : {step.beta1, 1 - step.beta1, step.beta2, 1 - step.beta2, step.keep,
                        step.rate, step.unit, step.epsilon})
    call.words.add_real(number, p.dtype);
  for (size_t i = 0; i < windows.size(); ++i)
    call.buffers.push_back(i == 1 ? windows[i].read() : windows[i].written());
  stream_.run(call);
  return true;
}

// A sum of squares is one of products of x with itself, in f64.
bool CardBackend::sum_of_squares(const View& x, const View& sum) {
  if (!has(x.dtype) || !can_.f64) return false;
  if (x.size() == 0) {
    fill(0, sum);
    return true;
  }
  const auto flat = collapse(loops_of<2>({&x, &x}), 0);
  if (flat.shape.size() > 3) return sum_of_squares(laid(x, row_major(x.shape)).view(), sum);
  const Window from = window_of(x);
  const Loops<3> once{{1}, {Strides{0}, Strides{0}, Strides{0}}};
  fold_loops(2, x.dtype == Dtype::f64 ? Shader::fold_f64 : Shader::fold_f32_to_f64, once, flat,
             from, from, sum);
  return true;
}

bool CardBackend::sum_of_squares_of_product(const View& g, const View& a, const View& b,
                                            const View& sum) {
  if (!has(g.dtype) || !can_.f64) return false;
  const Temporary product(*this, g.dtype, g.shape,
                          dense_strides(g.shape, memory_order(g.shape, g.strides)));
  elements(Kind::product, 0, {&g, &a, &b}, product.view());
  return sum_of_squares(product.view(), sum);
}

bool CardBackend::minus_product(const View& p, const View& g, const View& a, const View& b,
                                const View& rate, const View& p_to, const View& sum) {
  if (!has(p.dtype) || !can_.f64) return false;
  const Temporary step(*this, p.dtype, {}, {});
  copy(rate, step.view());
  elements(Kind::minus_product, 0, {&p, &g, &a, &b}, p_to, &step.view());
  return sum_of_squares(p_to, sum);
}

// Two folds of products, which the meaning has, are as fast.
bool CardBackend::squares_over(const View&, int, int, const View&, const View&) { return false; }

}  // namespace tete::vulkan
