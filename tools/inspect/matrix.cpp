#include "tools/inspect/matrix.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace tete {

double determinant(Matrix a) {
  double product = 1;
  for (Index k = 0; k < a.rows; ++k) {
    Index pivot = k;
    for (Index i = k + 1; i < a.rows; ++i)
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    if (a(pivot, k) == 0) return 0;
    if (pivot != k) product = -product;
    for (Index j = k; j < a.rows; ++j) std::swap(a(k, j), a(pivot, j));
    product *= a(k, k);
    for (Index i = k + 1; i < a.rows; ++i) {
      const double factor = a(i, k) / a(k, k);
      for (Index j = k; j < a.rows; ++j) a(i, j) -= factor * a(k, j);
    }
  }
  return product;
}

// ---- Singular values
// -----------------------------------------------------------------------------

namespace {

Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

double product_of_columns(const Matrix& a, Index p, Index q) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i) sum += a(i, p) * a(i, q);
  return sum;
}

// Turns columns p and q until they are orthogonal. False: they were.
bool turn(Matrix& a, Index p, Index q) {
  const double pp = product_of_columns(a, p, p), qq = product_of_columns(a, q, q);
  const double pq = product_of_columns(a, p, q);
  if (std::abs(pq) <= 1e-15 * std::sqrt(pp * qq)) return false;
  const double zeta = (qq - pp) / (2 * pq);
  const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
  const double c = 1 / std::hypot(1.0, t), s = c * t;
  for (Index i = 0; i < a.rows; ++i) {
    const double x = a(i, p), y = a(i, q);
    a(i, p) = c * x - s * y, a(i, q) = s * x + c * y;
  }
  return true;
}

}  // namespace

std::vector<double> singular_values(const Matrix& matrix) {
  Matrix a = matrix.rows < matrix.columns ? transposed(matrix) : matrix;
  bool turned = true;
  for (int sweep = 0; turned && sweep < 60; ++sweep) {
    turned = false;
    for (Index p = 0; p < a.columns; ++p)
      for (Index q = p + 1; q < a.columns; ++q) turned |= turn(a, p, q);
  }
  std::vector<double> values;
  for (Index j = 0; j < a.columns; ++j) values.push_back(std::sqrt(product_of_columns(a, j, j)));
  std::sort(values.rbegin(), values.rend());
  return values;
}

// ---- Eigenvalues
// ---------------------------------------------------------------------------------

namespace {

using Complex = std::complex<double>;

// Columns become zero below the first place under the diagonal: H ← G H Gᴴ with Householder
// reflections G.
void to_hessenberg(Matrix& h) {
  const Index n = h.rows;
  for (Index k = 0; k + 2 < n; ++k) {
    std::vector<double> v(static_cast<size_t>(n));
    double length = 0;
    for (Index i = k + 1; i < n; ++i) length += h(i, k) * h(i, k), v[i] = h(i, k);
    v[k + 1] += std::copysign(std::sqrt(length), h(k + 1, k));
    double square = 0;
    for (Index i = k + 1; i < n; ++i) square += v[i] * v[i];
    if (square == 0) continue;
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index i = k + 1; i < n; ++i) sum += v[i] * h(i, j);
      for (Index i = k + 1; i < n; ++i) h(i, j) -= 2 * sum / square * v[i];
    }
    for (Index i = 0; i < n; ++i) {
      double sum = 0;
      for (Index j = k + 1; j < n; ++j) sum += h(i, j) * v[j];
      for (Index j = k + 1; j < n; ++j) h(i, j) -= 2 * sum / square * v[j];
    }
  }
}

// A Hessenberg matrix that loses its eigenvalues one by one, from below.
class Deflation {
 public:
  explicit Deflation(const Matrix& h) : n_(h.rows), a_(h.values.begin(), h.values.end()) {
    for (double x : h.values) size_ += x * x;
    size_ = std::sqrt(size_);
  }

  std::vector<Complex> run() {
    std::vector<Complex> found;
    int steps = 0;
    for (Index last = n_ - 1; last >= 0;) {
      Index first = last;
      while (first > 0 && !is_small(first)) --first;
      if (first == last) {
        found.push_back(at(last, last));
        --last, steps = 0;
        continue;
      }
      if (++steps > 300) fail(ErrorKind::numbers, "the eigenvalues of a matrix do not settle");
      step(first, last, steps % 11 == 10 ? at(last, last) + at(last, last - 1) : shift(last));
    }
    return found;
  }

 private:
  Complex& at(Index i, Index j) { return a_[i * n_ + j]; }

  // True if what is left of the diagonal in row i is no more than rounding.
  bool is_small(Index i) { return std::abs(at(i, i - 1)) <= 1e-16 * size_; }

  // The eigenvalue of the last two rows and columns that is nearer to the last entry (Wilkinson).
  Complex shift(Index last) {
    const Complex a = at(last - 1, last - 1), b = at(last - 1, last), c = at(last, last - 1),
                  d = at(last, last);
    const Complex half = (a - d) / 2.0, root = std::sqrt(half * half + b * c);
    const Complex one = d + half + root, other = d + half - root;
    return std::abs(one - d) < std::abs(other - d) ? one : other;
  }

  // H - shift = Q R, H ← R Q + shift, on rows and columns first … last.
  void step(Index first, Index last, Complex shift) {
    std::vector<std::pair<Complex, Complex>> turns;
    for (Index i = first; i <= last; ++i) at(i, i) -= shift;
    for (Index k = first; k < last; ++k) {
      const Complex x = at(k, k), y = at(k + 1, k);
      const double length = std::hypot(std::abs(x), std::abs(y));
      const Complex c = length == 0 ? 1.0 : x / length, s = length == 0 ? 0.0 : y / length;
      turns.emplace_back(c, s);
      for (Index j = k; j <= last; ++j) {
        const Complex up = at(k, j), down = at(k + 1, j);
        at(k, j) = std::conj(c) * up + std::conj(s) * down;
        at(k + 1, j) = c * down - s * up;
      }
    }
    for (Index k = first; k < last; ++k) {
      const auto [c, s] = turns[k - first];
      for (Index i = first; i <= std::min(k + 1, last); ++i) {
        const Complex left = at(i, k), right = at(i, k + 1);
        at(i, k) = c * left + s * right;
        at(i, k + 1) = std::conj(c) * right - std::conj(s) * left;
      }
    }
    for (Index i = first; i <= last; ++i) at(i, i) += shift;
  }

  Index n_;
  double size_ = 0;  // of the whole matrix
  std::vector<Complex> a_;
};

}  // namespace

std::vector<Complex> eigenvalues(const Matrix& a) {
  Matrix h = a;
  to_hessenberg(h);
  return Deflation(h).run();
}

}  // namespace tete
