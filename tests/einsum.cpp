// einsum against the sum that it stands for (einsum_loop.hpp): the expressions of NumPy's and
// opt_einsum's tests, our own words and groups, and random ones; their gradients too. The planner
// against every order in which operands can be multiplied.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/check/gradcheck.hpp"
#include "core/ops.hpp"
#include "core/plan.hpp"
#include "tests/einsum_loop.hpp"

using namespace tete;

namespace {

constexpr double bound = 1e-12;

// The largest difference, relative to the size of each sum's terms; sums of nothing must be 0.
double difference(const Tensor& x, const EinsumLoop::Sums& sums) {
  const auto values = x.values<double>();
  if (values.size() != sums.value.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double apart = std::abs(values[i] - sums.value[i]);
    if (!(apart == 0)) worst = std::max(worst, sums.size[i] > 0 ? apart / sums.size[i] : INFINITY);
  }
  return worst;
}

// Value and gradients of one expression against the loop; empty where all agree. Operands that are
// one tensor share its gradient.
std::string disagreement(const std::string& expression, const Tensors& operands) {
  std::vector<Shape> shapes;
  std::vector<std::vector<double>> values;
  for (const Tensor& operand : operands) {
    shapes.push_back(operand.shape());
    values.push_back(operand.values<double>());
  }
  const EinsumLoop loop(expression, shapes);
  const Tensor y = einsum(Pattern::parse(expression), operands);
  if (!(y.shape() == loop.result_shape))
    return text("shape ", y.shape(), ", not ", loop.result_shape);
  const Tensor cotangent = random_normal(y.shape(), Key(5), Dtype::f64);
  EinsumLoop::Totals totals = loop.run(values, cotangent.values<double>());
  if (const double apart = difference(y, totals.result); !(apart <= bound))
    return text("values differ by ", apart);
  const Tensors gradients = grad(y, operands, {.cotangent = cotangent});
  for (size_t i = 0; i < operands.size(); ++i) {
    EinsumLoop::Sums expected = totals.gradients[i];
    for (size_t k = 0; k < operands.size(); ++k)
      for (size_t at = 0; k != i && operands[k].same(operands[i]) && at < expected.value.size();
           ++at)
        expected.value[at] += totals.gradients[k].value[at],
            expected.size[at] += totals.gradients[k].size[at];
    if (!gradients[i]) return text("operand ", i + 1, " has no gradient");
    if (!(gradients[i].shape() == shapes[i])) return text("gradient ", i + 1, " has another shape");
    if (const double apart = difference(gradients[i], expected); !(apart <= bound))
      return text("gradients of operand ", i + 1, " differ by ", apart);
  }
  return "";
}

Tensors random_operands(const std::vector<Shape>& shapes) {
  Tensors operands;
  for (const Shape& shape : shapes)
    operands.push_back(random_normal(shape, Key(7).fold(operands.size()), Dtype::f64).variable());
  return operands;
}

// ---- Expressions of other libraries' tests ---------------------------------------------------

struct Row {
  std::string expression;
  std::vector<Shape> shapes;
};

// The sizes that both libraries give to letters.
Index size_of_letter(char letter) {
  constexpr std::string_view letters = "abcdefghijklmopqABC";
  constexpr Index sizes[] = {2, 3, 4, 5, 4, 3, 2, 6, 5, 4, 3, 2, 5, 7, 4, 3, 2, 3, 4};
  return sizes[letters.find(letter)];
}

std::vector<Shape> shapes_by_letter(std::string_view expression) {
  std::vector<Shape> shapes(1);
  for (char c : expression.substr(0, expression.find("->"))) {
    if (c == ',') shapes.emplace_back();
    else shapes.back().push_back(size_of_letter(c));
  }
  return shapes;
}

// opt_einsum, test_contract.py and test_paths.py; most of them are NumPy's too.
const char* const by_letter[] = {
    // scalars
    "a,->a", "ab,->ab", ",a,->a", ",ab,->ab", ",,a,->a", ",,->", "->",
    // products of equal shapes
    "a,ab,abc->abc", "a,b,ab->ab",
    // transformations
    "ea,fb,gc,hd,abcd->efgh", "ea,fb,abcd,gc,hd->efgh", "abcd,ea,fb,gc,hd->efgh",
    // many operands
    "acdf,jbje,gihb,hfac,gfac,gifabc,hfac", "cd,bdhe,aidb,hgca,gc,hgibcd,hgac",
    "abhe,hidj,jgba,hiab,gab", "bde,cdh,agdb,hica,ibd,hgicd,hiac", "chd,bde,agbc,hiad,hgc,hgi,hiad",
    "chd,bde,agbc,hiad,bdi,cgh,agdb", "bdhe,acad,hiab,agac,hibd", "acdf,jbje,gihb,hfac",
    // sums
    "ab,ab,c->", "ab,ab,c->c", "ab,ab,cd,cd->", "ab,ab,cd,cd->ac", "ab,ab,cd,cd->cd",
    "ab,ab,cd,cd,ef,ef->",
    // outer products
    "ab,cd,ef->abcdef", "ab,cd,ef->acdf", "ab,cd,de->abcde", "ab,cd,de->be", "ab,bcd,cd->abcd",
    "ab,bcd,cd->abd", "a,b,c->abc", "a,b", "i,j",
    // what failed there once
    "eb,cb,fb->cef", "dd,fb,be,cdb->cef", "bca,cdb,dbf,afc->", "dcc,fce,ea,dbf->ab",
    "fdf,cdd,ccd,afe->ae", "abcd,ad", "ed,fcd,ff,bcf->be", "baa,dcf,af,cde->be", "bd,db,eac->ace",
    "fff,fae,bef,def->abd", "efc,dbc,acf,fd->abe", "ba,ac,da->bcd", "cab,cdd->ab",
    "ab,bc,cd,de->ae", "a,a,a->a", "abc,bdef,fghj,cem,mhk,ljk->adgl", "a,ac,ab,ad,cd,bd,bc->",
    "abc,cfd,dbe,efa",
    // inner products
    "ab,ab", "ab,ba", "abc,abc", "abc,bac", "abc,cba",
    // matrix products
    "ab,bc", "ab,cb", "ba,bc", "ba,cb", "abcd,cd", "abcd,ab", "abcd,cdef", "abcd,cdef->feba",
    "abcd,efdc", "ab,bc,cd", "ab,cd,ad,cb", "ij,jk,kl->il", "ab,bc->ac",
    // diagonals
    "aab,bc->ac", "ab,bcc->ac", "aab,bcc->ac", "baa,bcc->ac", "aab,ccb->ac",
    // random
    "aab,fa,df,ecc->bde", "ecb,fef,bad,ed->ac", "bcf,bbb,fbf,fc->", "bb,ff,be->e",
    "bcb,bb,fc,fff->", "fbb,dfd,fc,fc->", "afd,ba,cc,dc->bf", "adb,bc,fa,cfc->d",
    "bbd,bda,fc,db->acf", "dba,ead,cad->bce", "aef,fbc,dca->bde",
    // with constants
    "hbc,bdef,cdkj,ji,ikeh,lfo", "bdef,cdkj,ji,ikeh,hbc,lfo", "ijab,acd,bce,df,ef->ji",
    // every form of one product, and a few of several
    "bc,dc->bd", "cb,cd->db", "ebc,ecd->ebd", "bec,dec->bed", "bc,bc->", "bc,bc->b", "bc,bc->bc",
    "bc,e->bce", "bcd,d->bc", "bcd,b->c", "bcd->db", "bcd->", "bcd,e->b", "ebcd,edc->be",
    "dcbe,bed->c", "bce,ced->db", "bcde,ce->db", "bc,bc,bc->c", "bcd,be,ec,d->", "b,b,c,c,d->d",
    // of test_backends.py, test_sharing.py, test_edge_cases.py and test_parser.py
    "AB,BC->CA", "ab,bc->ca", "abc,bcd,dea", "abc,bcd,df->fa", "abc,def->fedcba", "i,j->ij",
    "ij,jk,kl->", "ij,jk,kl->li", "ijk,ikj", "ijk,k->ij", "ij->ij", "a,b->", "c,d->", "ab,bc,cd->",
    "ab,bc,cd->a", "ab,bc,cd->b", "ab,bc,cd->c", "ab,bc,de->", "ab,->", "bc,ab->bca", "bca,bd->acd",
    "cba->abc", "da,ab"};

const Row by_shape[] = {
    // NumPy, views
    {"...", {{2, 3}}},
    {"ij", {{2, 3}}},
    {"ji", {{2, 3}}},
    {"ii->i", {{3, 3}}},
    {"...ii->...i", {{3, 3, 3}}},
    {"ii...->...i", {{3, 3, 3}}},
    {"...ii->i...", {{3, 3, 3}}},
    {"jii->ij", {{3, 3, 3}}},
    {"ii...->i...", {{3, 3, 3}}},
    {"i...i->i...", {{3, 3, 3}}},
    {"i...i->...i", {{3, 3, 3}}},
    {"iii->i", {{3, 3, 3}}},
    {"ijk->jik", {{2, 3, 4}}},
    // NumPy, sums and products that have names of their own
    {"..., ...", {{}, {}}},
    {"i,i,i->i", {{8}, {8}, {8}}},
    {",i->", {{}, {9}}},
    {"i,->", {{9}, {}}},
    {"i,->i", {{9}, {}}},
    {",i->i", {{}, {9}}},
    {"i,i->i", {{7}, {7}}},
    {"i,i->", {{7}, {7}}},
    {"i,i,i->", {{5}, {5}, {5}}},
    {"i,i,i,i->", {{5}, {5}, {5}, {5}}},
    {"ij,jk,kl", {{3, 4}, {4, 5}, {5, 6}}},
    {"ijk,jil->kl", {{3, 4, 5}, {4, 3, 2}}},
    {"ij->", {{3, 3}}},
    {"ij->i", {{3, 3}}},
    {"ij->j", {{2, 3}}},
    {"i...k->...", {{3, 3, 3}}},
    {"ij,jh", {{3, 3}, {3, 3}}},
    // NumPy, cases that failed there
    {"z,mz,zm->", {{2}, {2, 2}, {2, 2}}},
    {"ji,i->", {{2, 2}, {2}}},
    {"i,ij->", {{2}, {2, 2}}},
    {"ij,i->", {{2, 2}, {2}}},
    {"ij...,j...->i...", {{1, 2}, {2, 2, 1}}},
    {"...i,...i", {{3}, {3}}},
    {"ijklm,ijn,ijn->", {{5, 12, 4, 2, 3}, {5, 12, 11}, {5, 12, 11}}},
    {"ijklm,ijn->", {{5, 12, 4, 2, 3}, {5, 12, 11}}},
    {"x,yx,zx->xzy", {{2}, {2, 2}, {4, 2}}},
    {"i,j", {{1}, {1}}},
    {"...ij,...jk->...ik", {{1, 5}, {5, 5}}},
    {"...ij,...jk->...ik", {{2, 1, 1}, {2, 1, 1}}},
    {"...ij,...jk->...ik", {{3, 3}, {3, 3}}},
    {"aT,bT->ab", {{2, 3}, {2, 3}}},
    {"aU,Uc->ac", {{2, 3}, {3, 4}}},
    {"az,zc->ac", {{2, 3}, {3, 4}}},
    {"ijk,j->ijk", {{2, 3, 4}, {3}}},
    {"ij...,j...->ij...", {{2, 3, 4}, {3}}},
    {"ij...,...j->ij...", {{2, 3, 4}, {3}}},
    {"ij...,j->ij...", {{2, 3, 4}, {3}}},
    {"ik,kj->ij", {{4, 3}, {3, 2}}},
    {"ik...,k...->i...", {{4, 3}, {3, 2}}},
    {"ik...,...kj->i...j", {{4, 3}, {3, 2}}},
    {"...k,kj", {{4, 3}, {3, 2}}},
    {"ik,k...->i...", {{4, 3}, {3, 2}}},
    {"ijkl,k->ijl", {{2, 3, 4, 5}, {4}}},
    {"ijkl,k", {{2, 3, 4, 5}, {4}}},
    {"...kl,k", {{2, 3, 4, 5}, {4}}},
    {"...kl,k...", {{2, 3, 4, 5}, {4}}},
    {"...lmn,...lmno->...o", {{1, 1, 1, 16, 16, 12}, {16, 16, 12, 3}}},
    {"...lmn,lmno->...o", {{1, 1, 1, 16, 16, 12}, {16, 16, 12, 3}}},
    {"cl,cpx->lpx", {{2, 3}, {2, 3, 2731}}},
    {"cl,cpxy->lpxy", {{3, 3}, {3, 3, 64, 64}}},
    {"aabb->ab", {{5, 5, 5, 5}}},
    {"ijij->", {{10, 10, 10, 10}}},
    {"mi,mi,mi->m", {{5, 5}, {5, 5}, {5, 5}}},
    {"im,im,im->m", {{5, 5}, {5, 5}, {5, 5}}},
    {"ij,jk->ik", {{2, 2}, {2, 2}}},
    {"bbcdc->d", {{1, 1, 3, 1, 3}}},
    {"ijk,kl,jl", {{1, 5, 4}, {4, 6}, {5, 6}}},
    {"abjk,kl,jl", {{1, 1, 5, 4}, {4, 6}, {5, 6}}},
    {"obk,ijk->ioj", {{2, 4, 8}, {2, 4, 8}}},
    {"...ft,mf->...mt", {{2, 3, 5}, {4, 3}}},
    {"...a->...a", {{1, 1}}},
    // opt_einsum, '...' and others
    {"...a->...", {{5, 4, 2}}},
    {"...a,ab", {{5, 4, 2}, {2, 3}}},
    {"a...->...", {{2, 5, 4}}},
    {"a...a->...a", {{2, 5, 4, 2}}},
    {"...,...", {{5, 4}, {5, 4}}},
    {"...a,...b", {{5, 4, 2}, {5, 4, 3}}},
    {"...b,...a->...", {{5, 4, 3}, {5, 4, 2}}},
    {"...a", {{5, 4, 2}}},
    {"cxa", {{2, 3, 4}}},
    {"ab,bc,cd->da", {{2, 2}, {2, 2}, {2, 2}}},
    {"a,b,c", {{1}, {1}, {1}}},
    {"nlp,nlq,pl->n", {{1, 1, 1}, {1, 1, 1}, {1, 1}}},
    {"a,bcd,efg->", {{2}, {2, 2, 2}, {2, 2, 2}}},
    {"a,b,abc->c", {{2}, {2}, {2, 2, 3}}},
    {"ab,cd,ef,fg", {{3, 3}, {3, 3}, {3, 3}, {3, 2}}},
    {"ab,bc,cd", {{2, 3}, {3, 4}, {4, 5}}},
    // words, groups, orders
    {"batch head key, batch head key -> batch head", {{2, 3, 5}, {2, 3, 5}}},
    {"b n d_X, d_X d_k h -> b n d_k h", {{2, 5, 3}, {3, 2, 4}}},
    {"b n d_k h, b m d_k h -> h m b n", {{2, 5, 3, 4}, {2, 7, 3, 4}}},
    {"row row -> row", {{4, 4}}},
    {"row row", {{4, 4}}},
    {"left ... right, right -> ... left", {{2, 3, 4, 5}, {5}}},
    {" i ", {{3}}},
    {"x1", {{3}}},
    {"n (h d), h d e -> n (e h)", {{4, 6}, {2, 3, 5}}},
    {"(h d) (h d), h", {{6, 6}, {2}}},
    {"(a b) c, (b a) c, a -> a b c", {{6, 2}, {6, 2}, {3}}},
    {"(a b), (b c), c", {{6}, {15}, {5}}},
    {"(ab)c,b->(ca)", {{6, 2}, {3}}},
    {"(i i) j, i -> (j i)", {{9, 2}, {3}}},
    {"(a b) ..., a -> ... (b a)", {{6, 4, 2}, {3}}},
    {"(a) b -> (b) (a)", {{2, 3}}},
    // nothing, one, and much of it
    {"ij,jk->ik", {{0, 3}, {3, 2}}},
    {"ij,jk->ik", {{2, 0}, {0, 3}}},
    {"ij,jk,kl->il", {{2, 0}, {0, 0}, {0, 3}}},
    {"bij,bjk->bik", {{0, 2, 5}, {0, 5, 3}}},
    {"ii->i", {{0, 0}}},
    {"ii", {{0, 0}}},
    {"...i,i->...", {{0, 3}, {3}}},
    {"bij,bjk->bik", {{1, 5, 1}, {1, 1, 3}}},
    {"i,i,j->j", {{0}, {0}, {2}}},
    {",,,,,,,,,,,,,,,", std::vector<Shape>(16)},
    {"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a->a", std::vector<Shape>(16, Shape{3})},
    {"ab,bc,cd,de,ef,fg,gh,hi,ij,jk->ak", std::vector<Shape>(10, Shape{2, 2})},
    {"abcdefghijklmnop->ponmlkjihgfedcba", {Shape(16, 2)}},
    {"abcdefghijklmnop,ponmlkjihgfedcba->", {Shape(16, 2), Shape(16, 2)}},
    {"aaaaaaaaaaaaaaaa->a", {Shape(16, 2)}},
    {"abcdefgh,ijklmnop->aibjckdlemfngohp", {Shape(8, 2), Shape(8, 2)}},
};

// ---- Random expressions ----------------------------------------------------------------------

class Dice {
 public:
  explicit Dice(uint64_t seed) : key_(seed) {}
  size_t below(size_t count) { return uniform_below(key_, at_++, count); }
  bool one_in(size_t count) { return below(count) == 0; }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  Key key_;
  uint64_t at_ = 0;
};

// A tensor that lies in memory in some order, with gaps, or repeated along a dimension.
Tensor strewn(const Shape& shape, Dice& dice) {
  std::vector<int> order;
  for (int i = 0; i < shape.size(); ++i) order.push_back(i);
  if (!dice.one_in(3)) dice.shuffle(order);
  Strides strides(shape.size(), 0);
  Index stride = 1;
  for (int i : order) {
    if (dice.one_in(8)) continue;  // one element, repeated
    if (dice.one_in(4)) stride *= 2;
    strides[i] = stride;
    stride *= std::max<Index>(1, shape[i]);
  }
  const Index offset = dice.one_in(4) ? 3 : 0;
  const Tensor stored = random_normal({stride + offset}, Key(dice.below(1 << 20)), Dtype::f64);
  return stored.window(shape, strides, offset).variable();
}

// One random expression: 2 to 6 operands; names repeated in one operand, or summed in one alone;
// '...' of any width; a result given or implied.
struct RandomExpression {
  std::string expression;
  std::vector<Shape> shapes;

  explicit RandomExpression(Dice& dice) {
    do draw(dice);
    while (points() > 1e5);
    const bool words = dice.one_in(3);
    expression = words ? " " : "";
    for (size_t i = 0; i < terms.size(); ++i) {
      if (i > 0) expression += words && dice.one_in(2) ? ", " : ",";
      expression += spelled(terms[i], words);
      shapes.push_back(shape_of(terms[i], widths[i]));
    }
    if (dice.one_in(4)) return;  // the result is implied
    expression += "->" + spelled(result(dice), words);
  }

 private:
  using Term = std::vector<size_t>;   // numbers of names
  static constexpr size_t dots = 99;  // '...' among them

  void draw(Dice& dice) {
    constexpr Index choice[] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5};
    for (Index& size : sizes) size = choice[dice.below(11)];
    const size_t count = 1 + dice.below(8);
    const bool dotted = dice.one_in(3);
    terms.assign(2 + dice.below(5), {});
    widths.assign(terms.size(), 0);
    used.clear();
    for (size_t i = 0; i < terms.size(); ++i) {
      const bool repeats = dice.one_in(4);
      for (size_t k = dice.below(5); k > 0; --k) {
        const size_t name = dice.below(count);
        if (repeats || !holds(terms[i], name)) terms[i].push_back(name);
        if (!holds(used, name)) used.push_back(name);
      }
      if (!dotted || dice.one_in(3)) continue;
      insert_dots(terms[i], dice);
      widths[i] = dice.below(3);
    }
  }
  Term result(Dice& dice) const {
    Term names = used;
    dice.shuffle(names);
    names.resize(dice.below(used.size() + 1));
    const bool dotted =
        std::any_of(terms.begin(), terms.end(), [](const Term& t) { return holds(t, dots); });
    if (dotted && !dice.one_in(6)) insert_dots(names, dice);
    return names;
  }
  static bool holds(const Term& term, size_t name) {
    return std::find(term.begin(), term.end(), name) != term.end();
  }
  static void insert_dots(Term& term, Dice& dice) {
    term.insert(term.begin() + static_cast<std::ptrdiff_t>(dice.below(term.size() + 1)), dots);
  }
  static std::string spelled(const Term& term, bool words) {
    constexpr const char* names[] = {"h1", "g_x", "f1", "C_x", "d1", "B_x", "A1", "e_x"};
    std::string all;
    for (size_t name : term) {
      all += words ? " " : "";
      all += name == dots ? "..." : words ? names[name] : std::string(1, names[name][0]);
    }
    return all;
  }
  // '...' stands for these sizes, from the right: 3, 2.
  Shape shape_of(const Term& term, size_t width) const {
    Shape shape;
    for (size_t name : term) {
      if (name != dots) shape.push_back(sizes[name]);
      else
        for (size_t k = width; k > 0; --k) shape.push_back(k == 1 ? 3 : 2);
    }
    return shape;
  }
  double points() const {
    double count = 6;
    for (size_t name : used) count *= static_cast<double>(std::max<Index>(1, sizes[name]));
    return count;
  }

  Index sizes[8] = {};
  std::vector<Term> terms;
  std::vector<size_t> widths;
  Term used;
};

// ---- The planner -----------------------------------------------------------------------------

// Labels that one operand alone has are summed before anything is multiplied.
void sum_private_labels(std::vector<Labels>& operands, const Labels& result) {
  const std::vector<Labels> all = operands;
  for (size_t i = 0; i < all.size(); ++i) {
    operands[i] = {};
    for (Label label : all[i]) {
      bool needed = result.contains(label);
      for (size_t j = 0; j < all.size(); ++j) needed |= j != i && all[j].contains(label);
      if (needed) operands[i].push_back(label);
    }
  }
}

// The least that an order of pairwise products costs: all of them are tried.
double cheapest(std::vector<Labels> operands, const Labels& result, const Sizes& sizes) {
  if (operands.size() < 2) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (size_t a = 0; a < operands.size(); ++a)
    for (size_t b = a + 1; b < operands.size(); ++b) {
      std::vector<Labels> rest;
      for (size_t i = 0; i < operands.size(); ++i)
        if (i != a && i != b) rest.push_back(operands[i]);
      double cost = 1;
      Labels made;
      for (Label label = 0; label < max_names; ++label) {
        if (!operands[a].contains(label) && !operands[b].contains(label)) continue;
        cost *= static_cast<double>(sizes[label]);
        bool needed = result.contains(label);
        for (const Labels& other : rest) needed |= other.contains(label);
        if (needed) made.push_back(label);
      }
      rest.push_back(made);
      best = std::min(best, cost + cheapest(rest, result, sizes));
    }
  return best;
}

std::string error_of(const std::string& expression, const std::vector<Shape>& shapes) {
  try {
    einsum(Pattern::parse(expression), random_operands(shapes));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_SUITE("einsum") {
  TEST_CASE("every expression of NumPy's and opt_einsum's tests is its sum, and so are gradients") {
    for (const std::string expression : by_letter) {
      CAPTURE(expression);
      CHECK(disagreement(expression, random_operands(shapes_by_letter(expression))) == "");
    }
  }

  TEST_CASE("expressions with shapes of their own are their sums: '...', words, groups, nothing") {
    for (const Row& row : by_shape) {
      CAPTURE(row.expression);
      CHECK(disagreement(row.expression, random_operands(row.shapes)) == "");
    }
  }

  TEST_CASE("every length of a vector has its sum, as NumPy's tests unroll them") {
    for (Index n = 1; n <= 24; ++n) {
      const Row rows[] = {
          {"i->", {{n}}},
          {"...i->...", {{2, 3, n}}},
          {"i...->...", {{2, n}}},
          {"i...->...", {{2, 3, n}}},
          {"ii", {{n, n}}},
          {"..., ...", {{3, n}, {2, 3, n}}},
          {"...i, ...i", {{2, 3, n}, {n}}},
          {"i..., i...", {{n, 3, 2}, {n}}},
          {"i,j", {{3}, {n}}},
          {"ij,j", {{4, n}, {n}}},
          {"ji,j", {{n, 4}, {n}}},
          {"ij,jk", {{4, n}, {n, 6}}},
          {"i,i", {{n}, {n}}},
          {"i,->i", {{n}, {}}},
          {",i->", {{}, {n}}},
      };
      for (const Row& row : rows) {
        CAPTURE(row.expression);
        CAPTURE(n);
        CHECK(disagreement(row.expression, random_operands(row.shapes)) == "");
      }
      const Tensor a = random_normal({n + 1}, Key(1), Dtype::f64);
      const Tensor head = slice(a, 0, 0, n).variable(), tail = slice(a, 0, 1, n).variable();
      for (const std::string expression : {"...,...", "i,i", "i,i->i"})
        CHECK(disagreement(expression, {tail, head}) == "");
    }
  }

  TEST_CASE("a result that is only its place in the graph has the same gradients, and no numbers") {
    const Tensor a = random_normal({3, 4, 5}, Key(1), Dtype::f64).variable(),
                 b = random_normal({5, 2}, Key(2), Dtype::f64).variable(),
                 c = random_normal({2, 6}, Key(3), Dtype::f64).variable();
    const Tensor g = random_normal({6, 3, 4}, Key(4), Dtype::f64);
    const auto gradients = [&](bool only_graph) {
      const Tensor y = einsum("i j k, k l, l m -> m i j", {.only_graph = only_graph}, a, b, c);
      CHECK(y.has_storage() != only_graph);
      // Its memory order is another, so that a reshape of numbers would copy them.
      const Tensor rows = reshape(permute(y, {1, 0, 2}), {3, 24});
      return grad(rows, Tensors{a, b, c}, {.cotangent = reshape(permute(g, {1, 0, 2}), {3, 24})});
    };
    const Tensors with = gradients(false), without = gradients(true);
    for (size_t i = 0; i < with.size(); ++i)
      CHECK(with[i].values<double>() == without[i].values<double>());
  }

  TEST_CASE("one tensor several times is as many operands, and its gradient the sum of theirs") {
    const Tensor x = random_normal({3, 3}, Key(1), Dtype::f64).variable();
    const Tensor y = random_normal({3, 2}, Key(2), Dtype::f64).variable();
    CHECK(disagreement("ij,ij->", {x, x}) == "");
    CHECK(disagreement("ij,jk,ki->", {x, x, x}) == "");
    CHECK(disagreement("ij,ji,ij->i", {x, x, x}) == "");
    CHECK(disagreement("ii,ij,jk,ij", {x, x, y, x}) == "");
    CHECK(disagreement("ij,kj->ik", {y, y}) == "");
  }

  TEST_CASE("2000 random expressions are their sums, and so are gradients, wherever operands lie") {
    Dice dice(1);
    for (int i = 0; i < 2000; ++i) {
      const RandomExpression random(dice);
      CAPTURE(random.expression);
      Tensors operands;
      for (const Shape& shape : random.shapes) {
        CAPTURE(shape);
        operands.push_back(strewn(shape, dice));
      }
      CHECK(disagreement(random.expression, operands) == "");
    }
  }

  TEST_CASE("random expressions have right gradients of gradients") {
    Dice dice(2);
    for (int checked = 0; checked < 40;) {
      const RandomExpression random(dice);
      const Pattern pattern = Pattern::parse(random.expression);
      if (EinsumLoop(random.expression, random.shapes).points() > 300) continue;
      ++checked;
      CAPTURE(random.expression);
      const auto f = [&](const Tensors& in) { return einsum(pattern, in); };
      Tensors inputs;
      for (const Shape& shape : random.shapes) inputs.push_back(strewn(shape, dice).detach());
      CHECK(check_gradient(f, inputs, {.order = 2, .entries = 4}).worst <= 1e-6);
    }
  }

  TEST_CASE("float32 is float64, rounded") {
    for (const std::string expression : by_letter) {
      CAPTURE(expression);
      Tensors wide, narrow;
      for (const Tensor& x : random_operands(shapes_by_letter(expression)))
        narrow.push_back(cast(x.detach(), Dtype::f32)),
            wide.push_back(cast(narrow.back(), Dtype::f64));
      const Pattern pattern = Pattern::parse(expression);
      Tensors sizes;
      for (const Tensor& x : wide) sizes.push_back(abs(x));
      const auto x = einsum(pattern, wide).values(), y = einsum(pattern, narrow).values(),
                 size = einsum(pattern, sizes).values();
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i)
        worst = std::max(worst, std::abs(x[i] - y[i]) / size[i]);
      CHECK(worst <= 16 * epsilon(Dtype::f32));
    }
  }

  TEST_CASE("a dimension of size 1 is not repeated silently, where NumPy and opt_einsum do") {
    const Row rows[] = {
        {"ij,ij->j", {{10, 2}, {1, 2}}},
        {"i,i", {{2}, {1}}},
        {"...ij,...jk->...ik", {{1, 5}, {1, 5}}},
        {"ijk,kl,jl,i->i", {{1, 5, 4}, {4, 6}, {5, 6}, {10}}},
        {"abjk,kl,jl,ab->ab", {{1, 1, 5, 4}, {4, 6}, {5, 6}, {7, 7}}},
        {"ajk,kbl,jl,ab->ab", {{1, 5, 4}, {4, 1, 6}, {5, 6}, {7, 7}}},
        {"ab,bc,bd->acd", {{5, 4}, {1, 5}, {4, 20}}},
        {"ijp,ipq,ikq->ijk", {{3, 1, 1}, {3, 1, 3}, {1, 3, 3}}},
        {"jhcabhijaci,dfijejgh->fgje",
         {{1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1}, {3, 1, 3, 1, 1, 1, 1, 2}}},
        {"baegffahgc,hdggeff->dhg", {{2, 1, 4, 1, 1, 1, 1, 2, 1, 1}, {1, 1, 1, 1, 4, 1, 1}}},
        {"cehgbaifff,fhhdegih->cdghbi", {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 1, 1, 2, 4, 1, 1, 1}}},
        {"gah,cdbcghefg->ef", {{2, 3, 1}, {1, 3, 1, 1, 1, 2, 1, 4, 1}}},
        {"cacc,bcb->", {{1, 1, 1, 1}, {1, 4, 1}}},
        {"...,...", {{2, 1}, {2, 3}}},
        {"ii", {{1, 3}}},
    };
    for (const Row& row : rows) {
      CAPTURE(row.expression);
      CHECK(error_of(row.expression, row.shapes)
                .find("a dimension of size 1 is not repeated silently") != std::string::npos);
    }
    CHECK(
        error_of("ij,ij->j", {{10, 2}, {1, 2}}) ==
        "einsum: 'i' is 10 in operand 1 but 1 in operand 2; a dimension of size 1 is not repeated "
        "silently.\n"
        "    ij,ij->j\n"
        "    ^  ^\n"
        "    operand 1: f64[10, 2]\n"
        "    operand 2: f64[1, 2]");
  }

  TEST_CASE("what the other libraries refuse is refused with a sentence") {
    struct Refused {
      std::string expression;
      std::vector<Shape> shapes;
      std::string sentence;
    };
    const Refused rows[] = {
        {"",
         {{}, {}},
         "einsum: the pattern names 1 operand, got 2.\n    \n    operand 1: f64[]\n"
         "    operand 2: f64[]"},
        {",",
         {{}, {1}, {1}},
         "einsum: the pattern names 2 operands, got 3.\n    ,\n    operand 1: f64[]\n"
         "    operand 2: f64[1]\n    operand 3: f64[1]"},
        {",",
         {{1}},
         "einsum: the pattern names 2 operands, got 1.\n    ,\n     ^\n    operand 1: f64[1]"},
        {"i",
         {{}},
         "einsum: operand 1 has 1 dimension, but the tensor has 0.\n    i\n    ^\n    operand 1: "
         "f64[]"},
        {"ij",
         {{2}},
         "einsum: operand 1 has 2 dimensions, but the tensor has 1.\n    ij\n    ^^\n    operand "
         "1: f64[2]"},
        {"i",
         {{2, 3}},
         "einsum: operand 1 has 1 dimension, but the tensor has 2.\n    i\n    ^\n    operand 1: "
         "f64[2, 3]"},
        {"...i",
         {{}},
         "einsum: operand 1 has 1 dimension beside '...', but the tensor has 0.\n    ...i\n    "
         "^^^^\n    operand 1: f64[]"},
        {"i...j",
         {{2}},
         "einsum: operand 1 has 2 dimensions beside '...', but the tensor has 1.\n    i...j\n    "
         "^^^^^\n    operand 1: f64[2]"},
        {"i...",
         {{}},
         "einsum: operand 1 has 1 dimension beside '...', but the tensor has 0.\n    i...\n"
         "    ^^^^\n    operand 1: f64[]"},
        {"ij...",
         {{2}},
         "einsum: operand 1 has 2 dimensions beside '...', but the tensor has 1.\n    ij...\n"
         "    ^^^^^\n    operand 1: f64[2]"},
        {"i->i",
         {{2, 2}},
         "einsum: operand 1 has 1 dimension, but the tensor has 2.\n    i->i\n    ^\n"
         "    operand 1: f64[2, 2]"},
        {"i..", {{2, 2}}, "pattern: expected '...'\n    i..\n     ^"},
        {".i...", {{2, 2}}, "pattern: expected '...'\n    .i...\n    ^"},
        {"j->..j", {{2, 2}}, "pattern: expected '...'\n    j->..j\n       ^"},
        {"j->.j...", {{2, 2}}, "pattern: expected '...'\n    j->.j...\n       ^"},
        {"i%...", {{2, 2}}, "pattern: expected a name, ',' or '->'\n    i%...\n     ^"},
        {"...j$", {{2, 2}}, "pattern: expected a name, ',' or '->'\n    ...j$\n        ^"},
        {"i->&", {{2, 2}}, "pattern: expected a name, ',' or '->'\n    i->&\n       ^"},
        {"&,a->", {{}, {5}}, "pattern: expected a name, ',' or '->'\n    &,a->\n    ^"},
        {"->,->", {{}, {5}}, "pattern: expected the end after the result\n    ->,->\n      ^"},
        {"i->ij", {{2, 2}}, "pattern: a name of the result is in no operand\n    i->ij\n        ^"},
        {"ij->jij",
         {{2, 2}},
         "pattern: a name stands twice in the result\n    ij->jij\n          ^"},
        {"ii",
         {{2, 3}},
         "einsum: 'i' is both 2 and 3 in operand 1.\n    ii\n    ^^\n    operand 1: f64[2, 3]"},
        {"aabcb,abc",
         {{3, 3, 4, 5, 6}, {3, 4, 5}},
         "einsum: 'b' is both 4 and 6 in operand 1.\n    aabcb,abc\n      ^ ^\n"
         "    operand 1: f64[3, 3, 4, 5, 6]\n    operand 2: f64[3, 4, 5]"},
        {"...a,b...",
         {{2, 5, 4}, {6, 3, 5}},
         "einsum: a dimension of '...' is 2 in operand 1 but 3 in operand 2.\n    ...a,b...\n"
         "    ^^^   ^^^\n    operand 1: f64[2, 5, 4]\n    operand 2: f64[6, 3, 5]"},
        {"ij, j",
         {{4, 3}, {3}},
         "einsum: operand 1 has 1 dimension, but the tensor has 2; where there is white space, "
         "names "
         "are words.\n    ij, j\n    ^^\n    operand 1: f64[4, 3]\n    operand 2: f64[3]"},
        {"n (h d) -> n h d",
         {{4, 6}},
         "einsum: how a dimension of size 6 splits into 'h' and 'd' follows from no operand.\n"
         "    n (h d) -> n h d\n       ^ ^\n    operand 1: f64[4, 6]"},
        {"(h d), h",
         {{6}, {4}},
         "einsum: dimension 0 of operand 1 has size 6, but its parts multiply to 4.\n"
         "    (h d), h\n     ^ ^\n    operand 1: f64[6]\n    operand 2: f64[4]"},
        {"(a b), a c, b c",
         {{6}, {Index{1} << 40, 0}, {Index{1} << 40, 0}},
         "einsum: dimension 0 of operand 1 has size 6, but its parts multiply to more than 63 bits "
         "hold.\n    (a b), a c, b c\n     ^ ^\n    operand 1: f64[6]\n"
         "    operand 2: f64[1099511627776, 0]\n    operand 3: f64[1099511627776, 0]"},
        {"(h d), h",
         {{0}, {0}},
         "einsum: how a dimension of size 0 splits into 'h' and 'd' follows from no operand.\n"
         "    (h d), h\n     ^ ^\n    operand 1: f64[0]\n    operand 2: f64[0]"},
        {"a [b]", {{2, 3}}, "einsum: [ ] mean nothing here.\n    a [b]\n       ^"},
        {"a () b", {{2, 3}}, "pattern: nothing stands in ( )\n    a () b\n       ^"},
        {"abcdefghi,jklmnopqr",
         {Shape(9, 1), Shape(9, 1)},
         "einsum: the result has more than 16 dimensions.\n    abcdefghi,jklmnopqr\n"
         "    operand 1: f64[1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
         "    operand 2: f64[1, 1, 1, 1, 1, 1, 1, 1, 1]"},
        {"abcdefghi,jklmnopqr->abcdefghijklmnopq",
         {Shape(9, 1), Shape(9, 1)},
         "pattern: more than 16 dimensions in one operand\n"
         "    abcdefghi,jklmnopqr->abcdefghijklmnopq\n" +
             std::string(41, ' ') + "^"},
        {"abcdefghijklmnop,qrstuvwxyzABCDEF,...",
         {Shape(16, 1), Shape(16, 1), Shape{1}},
         "einsum: the names and the dimensions of '...' are more than 32.\n"
         "    abcdefghijklmnop,qrstuvwxyzABCDEF,...\n" +
             std::string(38, ' ') + "^^^\n" +
             "    operand 1: f64[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
             "    operand 2: f64[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
             "    operand 3: f64[1]"},
    };
    for (const Refused& row : rows) {
      CAPTURE(row.expression);
      CHECK(error_of(row.expression, row.shapes) == row.sentence);
    }
  }

  TEST_CASE("contract says which labels do not fit its operands") {
    const Tensor x = Tensor::zeros({2, 3}, Dtype::f64), y = Tensor::zeros({3, 3}, Dtype::f64);
    CHECK_THROWS_WITH_AS(contract(x, {0}, y, {1, 2}, {0}),
                         "contract: A has 1 labels, but the tensor is f64[2, 3]", Error);
    CHECK_THROWS_WITH_AS(
        contract(x, {0, 1}, y, {1, 1}, {0}),
        "contract: dimensions 0 and 1 of B have one label; take its diagonal first", Error);
    CHECK_THROWS_WITH_AS(
        contract(x, {0, 1}, y, {0, 2}, {1, 2}),
        "contract: dimension 0 of A is 2, but dimension 0 of B, of the same label, "
        "is 3",
        Error);
    for (const Labels& result : {Labels{0, 3}, Labels{0, 0}})
      CHECK_THROWS_WITH_AS(contract(x, {0, 1}, y, {1, 2}, result),
                           "contract: label 1 of the result stands twice, or in no operand", Error);
    CHECK_THROWS_WITH_AS(contract(x, {0, 1}, cast(y, Dtype::f32), {1, 2}, {0, 2}),
                         "contract: expected operands of one real type, got f64 and f32", Error);
  }

  TEST_CASE("operands are of one real type") {
    const Tensor x = Tensor::zeros({4}, Dtype::f64);
    CHECK_THROWS_WITH_AS(einsum("i,i", x, cast(x, Dtype::f32)),
                         "einsum: expected operands of one real type, f32 or f64; operand 1 is "
                         "f64, operand 2 f32.\n    i,i\n      ^\n    operand 1: f64[4]\n"
                         "    operand 2: f32[4]",
                         Error);
    CHECK_THROWS_WITH_AS(einsum("i", arange(4)),
                         "einsum: expected operands of one real type, f32 or f64; operand 1 is "
                         "i64.\n    i\n    ^\n    operand 1: i64[4]",
                         Error);
  }

  TEST_CASE("the planner says what a chain of products costs, and its loop") {
    Sizes sizes;
    sizes.fill(0);
    sizes[0] = 2, sizes[1] = 100, sizes[2] = 3, sizes[3] = 50;  // a b c d
    const Plan chain = plan({{0, 1}, {1, 2}, {2, 3}}, {0, 3}, sizes);
    CHECK(chain.multiplies == 2 * 100 * 3 + 2 * 3 * 50);
    CHECK(chain.naive_multiplies == 2.0 * 100 * 3 * 50);
    CHECK(chain.steps.size() == 2);
  }

  TEST_CASE("no order of products is cheaper than the planned one, for up to six operands") {
    Dice dice(3);
    for (int problem = 0; problem < 400; ++problem) {
      Sizes sizes;
      const bool empty = dice.one_in(10);
      for (Index& size : sizes) size = static_cast<Index>(dice.below(9)) + (empty ? 0 : 1);
      const size_t names = 1 + dice.below(10);
      std::vector<Labels> operands(2 + dice.below(5));
      Labels result;
      for (Label label = 0; label < names; ++label) {
        bool used = false;
        for (Labels& operand : operands)
          if (dice.one_in(3)) operand.push_back(label), used = true;
        if (used && dice.one_in(3)) result.push_back(label);
      }
      const Plan with_private = plan(operands, result, sizes);
      sum_private_labels(operands, result);
      const Plan made = plan(operands, result, sizes);
      CAPTURE(problem);
      CHECK(with_private.multiplies == made.multiplies);
      CHECK(made.steps.size() == operands.size() - 1);
      CHECK(made.multiplies <= cheapest(operands, result, sizes) * (1 + 1e-12));
      // The cost that it states is that of its steps.
      double total = 0;
      for (const PlanStep& step : made.steps) {
        double cost = 1;
        for (Label label = 0; label < names; ++label)
          if (operands[step.a].contains(label) || operands[step.b].contains(label))
            cost *= static_cast<double>(sizes[label]);
        CHECK(step.multiplies == doctest::Approx(cost));
        total += cost;
        operands.push_back(step.result);
      }
      CHECK(made.multiplies == doctest::Approx(total));
    }
  }
}
