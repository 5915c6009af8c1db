// Matrices and rows of several heads.
#pragma once
#include <vector>

#include "core/cpu/attention.hpp"

namespace tete::cpu_kernels {

// A matrix for each head.
template <class T>
struct Heads {
  T* data;
  Index head, step;

  Lines<T> operator[](Index h) const { return {data ? data + h * head : nullptr, step}; }
  Heads<const T> read() const { return {data, head, step}; }
  // The same matrices from this row on.
  Heads from_row(Index row) const { return {data + row * step, head, step}; }
};

// The last three dimensions of x at this offset, or its only two.
template <class T>
Heads<T> heads_at(const View& x, Index offset) {
  const Lines<T> first = lines_at<T>(x, offset);
  return {first.data, x.data && x.rank() > 2 ? x.strides[x.rank() - 3] : 0, first.step};
}

// Rows of all heads, those of one head one after another.
template <class T>
class GroupSpace {
 public:
  GroupSpace(Index rows, Index heads, Index numbers) : rows_(rows), space_(rows * heads, numbers) {}
  // One row of all heads.
  Lines<T> row(Index r) const { return {space_.lines()[r], rows_ * space_.lines().step}; }
  // All rows of one head.
  Lines<T> head(Index h) const { return {space_.lines()[h * rows_], space_.lines().step}; }

 private:
  const Index rows_;
  const LineSpace<T> space_;
};

// Sums for the rows of each head, in dense memory: rows of the result may be too far apart to add
// to.
template <class T>
class SumsOfHeads {
 public:
  SumsOfHeads(Index heads, Index rows, Index width)
      : heads_(heads),
        rows_(rows),
        width_(width),
        memory_(static_cast<size_t>(heads * rows * width) * sizeof(T)) {
    std::fill_n(memory_.template as<T>(), heads * rows * width, T(0));
  }
  Lines<T> operator[](Index h) const {
    return {memory_.template as<T>() + h * rows_ * width_, width_};
  }
  void copy_to(const Heads<T>& x) const {
    const double work = static_cast<double>(heads_ * rows_ * width_);
    parallel_for(heads_, work, [&](Index h) {
      const Lines<T> from = (*this)[h], to = x[h];
      for (Index r = 0; r < rows_; ++r) std::copy_n(from[r], width_, to[r]);
    });
  }

 private:
  const Index heads_, rows_, width_;
  const Scratch memory_;
};

// The matrices of all heads in panels.
template <class T>
class PanelsOfHeads {
 public:
  PanelsOfHeads(Index heads, Index k, Index n, const Heads<const T>& x, bool turned = false)
      : memory_(static_cast<size_t>(heads * Panels<T>::size(k, n)) * sizeof(T)) {
    for (Index h = 0; h < heads; ++h)
      panels_.emplace_back(k, n, memory_.template as<T>() + h * Panels<T>::size(k, n));
    parallel_for(heads, static_cast<double>(heads * k * n),
                 [&](Index h) { panels_[static_cast<size_t>(h)].lay_out(x[h], turned); });
  }
  const Panels<T>& operator[](Index h) const { return panels_[static_cast<size_t>(h)]; }
  void clear_line(Index p) {
    for (Panels<T>& panels : panels_) panels.clear_line(p);
  }

 private:
  const Scratch memory_;
  std::vector<Panels<T>> panels_;
};

}  // namespace tete::cpu_kernels
