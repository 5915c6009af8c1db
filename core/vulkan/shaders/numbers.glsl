// The functions that the rows of elementwise.def are read with. For floats they are those of
// core/cpu/number.hpp, so that a device's numbers are the processor's but for the rounding; its own
// log, for one, may be wrong by 4e-4 of the result near 1. GLSL has none of them for doubles: the
// device leaves those to the processor.
#ifdef DOUBLE
#define REAL double
#define MISSING(name) double name##_of(double x) { return x; }
MISSING(exp) MISSING(log) MISSING(tanh) MISSING(erf) MISSING(sin) MISSING(cos) MISSING(softplus)
double pow_of(double a, double b) { return a; }
#else
#define REAL float

#define infinity uintBitsToFloat(0x7F800000u)

// exp x = 2^k exp r, k = round(x / ln 2), |r| <= ln 2 / 2. Nothing branches: many are taken in a row.
float exp_of(float x) {
  const float near = clamp(x, -104.0, 89.0);  // beyond, 0 and infinity
  const float k = roundEven(near * 1.44269504);
  const float r = (near - k * 0.693145752) - k * 1.42860677e-6;
  float y = 0.001393390005 + r * 0.0001989126851;
  y = 0.1666666668 + r * (0.04166646267 + r * (0.008333310675 + r * y));
  y = r * r * (0.5000000014 + r * y) + r + 1.0;
  // Two factors, as 2^k itself may be outside the range of a float.
  const int half_ = int(k) >> 1;
  y = y * intBitsToFloat((half_ + 127) << 23) * intBitsToFloat((int(k) - half_ + 127) << 23);
  return isnan(x) ? x : y;
}

// log x = e ln 2 + log(1 + f), 1 + f in [sqrt 1/2, sqrt 2).
float log_of(float x) {
  if (isnan(x) || x == infinity) return x;
  if (x <= 0.0) return x == 0.0 ? -infinity : uintBitsToFloat(0x7FC00000u);
  const bool tiny = x < 1.17549435e-38;
  const int bits = floatBitsToInt(tiny ? x * 8388608.0 : x) - 0x3F3504F3;  // sqrt 1/2
  const float e = float(bits >> 23) - (tiny ? 23.0 : 0.0);
  const float f = intBitsToFloat((bits & 0x7FFFFF) + 0x3F3504F3) - 1.0;
  float y = -0.1147973385 + f * 0.06971611471;
  y = 0.1424905765 + f * (-0.1242568733 + f * (0.1168541992 + f * y));
  y = 0.3333333118 + f * (-0.2499999696 + f * (0.2000071575 + f * (-0.1666780232 + f * y)));
  const float ff = f * f;
  return (f + (e * 1.42860677e-6 + (f * ff * y - 0.5 * ff))) + e * 0.693145752;
}

// Small x: x + x^3 p(x^2); else 1 - 2/(exp 2x + 1).
float tanh_of(float x) {
  const float a = abs(x), z = x * x;
  float y = -0.008323187058 + z * 0.002269501684;
  y = -0.3333333315 + z * (0.1333330015 + z * (-0.05395846163 + z * (0.02176250291 + z * y)));
  const float far = 1.0 - 2.0 / (exp_of(2.0 * a) + 1.0);
  return a < 0.625 ? x + x * z * y : isnan(x) ? x : x < 0.0 ? -far : far;
}

// Small x: x p(x^2); else 1 - exp q(|x|), where q fits log erfc.
float erf_of(float x) {
  const float a = abs(x), z = x * x;
  float y = -0.0008016864287 + z * 7.875875063e-5;
  y = 0.1128359472 + z * (-0.02685421201 + z * (0.005189087423 + z * y));
  y = x * (1.128379166 + z * (-0.3761262667 + z * y));
  const float t = min(a, 4.0) - 2.5;  // from 4 on, erf rounds to 1
  float q = 6.95821888e-5 - t * 2.03613878e-5;
  q = -0.0108453229 + t * (0.00218527220 + t * (-0.000413302014 + t * q));
  q = -7.80681556 + t * (-5.35268201 + t * (-0.943892384 + t * q));
  const float far = 1.0 - exp_of(q);
  return a < 1.0 ? y : isnan(x) ? x : x < 0.0 ? -far : far;
}

// sin(x + quarter pi/2). The angle is reduced in four parts of pi/2: to 1e-7 for |x| below 10^4.
float sine(float x, int quarter) {
  const float k = roundEven(x * 0.636619772);
  const float r = (((x - k * 1.5703125) - k * 0.000483751297) - k * 7.54953362e-8) - k * 2.56334407e-12;
  const float z = r * r;
  const float s = r + r * z * (-0.1666666666 + z * (0.008333331803 + z * (-0.0001984004821 + z * 2.724497002e-6)));
  const float c = (1.0 - 0.5 * z) + z * z * (0.04166666456 + z * (-0.001388828395 + z * 2.454385166e-5));
  const int turn = int(k) + quarter;
  const float y = (turn & 1) != 0 ? c : s;
  return (turn & 2) != 0 ? -y : y;
}
float sin_of(float x) { return sine(x, 0); }
float cos_of(float x) { return sine(x, 1); }

// log(1 + exp x) = max(x, 0) + log(1 + e), e = exp(-|x|).
float softplus_of(float x) {
  const float e = exp_of(-abs(x)), u = 1.0 + e;
  return max(x, 0.0) + (log_of(u) + (e - (u - 1.0)) / u);
}

// As std::pow: an odd power of a negative number, or of -0, is negative.
float pow_of(float a, float b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  const float size = abs(a), none = uintBitsToFloat(0x7FC00000u);
  if (isnan(a) || isnan(b)) return none;
  if (isinf(b)) return size == 1.0 ? 1.0 : (size > 1.0) == (b > 0.0) ? infinity : 0.0;
  const bool whole = floor(b) == b;
  if (a < 0.0 && !whole && size != infinity) return none;
  const float y = exp_of(b * log_of(size));
  return floatBitsToInt(a) < 0 && whole && fract(0.5 * b) != 0.0 ? -y : y;
}
#endif

// 1/(1 + exp(-x)), with the exponential of -|x|, which cannot overflow.
REAL sigmoid_of(REAL x) {
  const REAL e = exp_of(-abs(x));
  return (x < 0.0 ? e : REAL(1.0)) / (1.0 + e);
}
REAL step_of(REAL x) { return x > 0.0 ? 1.0 : 0.0; }
REAL relu_of(REAL x) { return x < 0.0 ? REAL(0.0) : x; }
REAL less_of(REAL a, REAL b) { return a < b ? 1.0 : 0.0; }
REAL equal_of(REAL a, REAL b) { return a == b ? 1.0 : 0.0; }

// core/gelu.hpp has the formulas.
REAL gelu_of(REAL x) { return x * sigmoid_of((x * x * 0.044715 + 1.0) * x * 1.5957691216057308); }
REAL gelu_erf_of(REAL x) { return 0.5 * x * (1.0 + erf_of(x * 0.7071067811865476)); }
REAL gelu_slope_of(REAL x) {
  const REAL xx = x * x, t = tanh_of((xx * 0.044715 + 1.0) * x * 0.7978845608028654);
  return (t + 1.0) * 0.5 + (1.0 - t * t) * (xx * 0.134145 + 1.0) * 0.7978845608028654 * x * 0.5;
}
REAL gelu_erf_slope_of(REAL x) {
  return (0.5 + 0.5 * erf_of(x * 0.7071067811865476)) + x * 0.3989422804014327 * exp_of(-0.5 * x * x);
}

#define exp exp_of
#define log log_of
#define tanh tanh_of
#define erf erf_of
#define sin sin_of
#define cos cos_of
#define softplus softplus_of
#define sigmoid sigmoid_of
#define pow pow_of
#define step step_of
#define relu relu_of
#define less less_of
#define equal equal_of
#define gelu gelu_of
#define gelu_erf gelu_erf_of
#define gelu_slope gelu_slope_of
#define gelu_erf_slope gelu_erf_slope_of
