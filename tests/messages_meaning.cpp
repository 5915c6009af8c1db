// Each text that can be read and means nothing is refused with its sentence, at its place.
#include "tests/marked.hpp"

using namespace tete;

TEST_SUITE("messages") {
  TEST_CASE("of one operand, and of operands that share what is summed, einsum is a sum") {
    for (const char* const right :
         {"einsum(X[n, d])", "einsum(X[n, d], X[n, d])", "einsum(X[n, d], Z[d], Z[d])",
          "einsum(X[n, 0], X[n, d], Z[d])"})
      CHECK_NOTHROW(check(
          Program::parse(text("def F(X[n, d], Z[d]):\n  Y[n] = ", right, "\n  return Y[n]\n"))));
  }

  TEST_CASE("names, functions, elements, sizes, parameters and calls") {
    const Marked rows[] = {
        {"'n' stands twice in X[…]; a second dimension of the same size needs a name of its own",
         "def F(X[n, «n»]):\n  return X[n, n]\n"},
        {"there is no tensor 'Z'; there is X", "def F(X[n]):\n  Y[n] = «Z»[n]\n  return Y[n]\n"},
        {"there is no tensor 'Qury'; did you mean 'Query'?",
         "def F(Query[n]):\n  Y[n] = «Qury»[n]\n  return Y[n]\n"},
        {"'Z' is used before it is defined",
         "def F(X[n]):\n  Y[n] = «Z»[n]\n  ‹Z›[n] = X[n]\n  return Y[n]\n"},
        {"'Y' is used before it is defined", "def F(X[n]):\n  ‹Y›[n] = «Y»[n]\n  return Y[n]\n"},
        {"'X' is assigned twice", "def F(‹X›[n]):\n  «X»[n] = 2 * X[n]\n  return X[n]\n"},
        {"'X' is assigned twice", "def F(‹X›[n], «X»[n]):\n  return X[n]\n"},
        {"a tensor cannot be called 'exp': that is a function",
         "def F(X[n]):\n  «exp»[n] = X[n]\n  return exp[n]\n"},
        {"a tensor cannot be called 'normal': that is an initialiser",
         "def F(«normal»[n]):\n  return normal[n]\n"},
        {"a tensor cannot be called 'F': that is a def",
         "def F(X[n]):\n  «F»[n] = X[n]\n  return F[n]\n"},
        {"a tensor cannot be called 'n': that is a dimension",
         "def F(X[n]):\n  «n»[n] = X[n]\n  return n[n]\n"},
        {"a def cannot be called 'exp': that is a function", "def «exp»(X[n]):\n  return X[n]\n"},
        {"'X' is used with 1 dimension, but it was defined with 2",
         "def F(‹X[n, d]›):\n  Y[n] = sum(«X[n]», reduced_dim=d)\n  return Y[n]\n"},
        {"dimension 2 of 'X' is 'd', not 'e'; another name is given as d=(e)",
         "def F(‹X[n, d]›):\n  Y[n, e] = X[n, «e»]\n  return Y[n, e]\n"},
        {"dimension 1 of 'P' is 'd', not 'e'; another name is given as d=(e)",
         "def F(X[n, d], ‹P[d, e]› = ones()):\n  Y[n, e] = einsum(X[n, d], P[«e», d])\n  return "
         "Y[n, e]\n"},
        {"dimension 1 of 'Y' is 'd', not 'n'; another name is given as d=(n)",
         "def F(X[n, d]):\n  ‹Y[d, n]› = X[n, d]\n  return Y[«n», d]\n"},
        {"'gg' is not a dimension of 'F'; did you mean 'g'?",
         "def F(X[n, h]):\n  Y[n, g, s] = X[n, h=(g «gg»)]\n  return Y[n, g, s]\n"},
        {"'g' stands twice in Y[…]; a second dimension of the same size needs a name of its own",
         "def F(X[n, h]):\n  Y[n, h=(g «g»)] = X[n, h=(g g)]\n  return Y[n, h]\n"},
        {"where 'X' is defined its dimensions have names, not numbers",
         "def F(X[n, «0»]):\n  return X[n, 0]\n"},
        {"only a parameter has a largest length; 'X' is none",
         "def F(X[n<=«max_n»]):\n  return X[n]\n"},
        {"a largest length stands where a parameter is defined, not where it is used",
         "def F(X[n], R[n<=k] = ones()):\n  Y[n] = X[n] * R[n<=«k»]\n  return Y[n]\n"},
        {"'M' has 2 dimensions, but 'X' has 1",
         "def F(X[n], «M[m, d]» = ‹X[n]›):\n  return X[n]\n"},
        {"a tensor has at most 12 dimensions, this has 13",
         "def F(«X[a, b, c, d, e, f, g, h, i, j, k, l, m]»):\n  return X[n]\n"},
        {"'d' is a dimension of 'X' but not of the left; only einsum and reductions drop a "
         "dimension",
         "def F(X[n, d]):\n  ‹Y[n]› = X[n, «d»]\n  return Y[n]\n"},
        {"'ee' is on the left but in no operand of einsum",
         "def F(X[n, d], P[d, e] = ones()):\n  K[n, «ee»] = ‹einsum›(X[n, d], P[d, e])\n  return "
         "K[n, ee]\n"},
        {"'n' is on the left but in no operand of einsum; give it a name in a statement of its own",
         "def F(X[n, d], b[d] = ones()):\n  Y[«n»] = einsum(X[n, d], X[n, d]) + "
         "‹einsum›(b[d], b[d])\n  return Y[n]\n"},
        {"'h' is in one operand of einsum only and not on the left; if it is to be summed, write "
         "sum(W[n, m, h], reduced_dim=h) in a statement of its own",
         "def F(W[n, m, h], V[m, d]):\n  ‹O[n, d]› = einsum(W[n, m, «h»], V[m, d])\n  return O[n, "
         "d]\n"},
        {"'s' is in one operand of einsum only and not on the left; if it is to be summed, write "
         "sum(W[n, 0, h=(g s)], reduced_dim=s) in a statement of its own",
         "def F(W[n, m, h], V[n, g]):\n  where s = 2\n  ‹O[n]› = 2 * einsum(V[n, g], W[n, 0,\n "
         "h=(g «s»)])\n  "
         "return O[n]\n"},
        {"'einsum' takes tensors with their dimensions; give this a name in a statement of its own",
         "def F(X[n]):\n  Y[n] = einsum(«relu»(X[n]), X[n])\n  return Y[n]\n"},
        {"'d' is a dimension of sum(…) but not of the left",
         "def F(X[n, d]):\n  ‹Y[n]› = exp(«sum»(X[n, d], reduced_dim=n))\n  return Y[n]\n"},
        {"'e' is not a dimension of 'F'; there are d, n",
         "def F(X[n, d]):\n  Y[n, d] = softmax(X[n, d], reduced_dim=«e»)\n  return Y[n, d]\n"},
        {"'d' is not a dimension of what is reduced",
         "def F(X[n], Z[d]):\n  Y[n] = sum(‹X[n]›, reduced_dim=«d»)\n  return Y[n]\n"},
        {"'d' is not a dimension of what 'softmax' is given",
         "def F(X[n], Z[d]):\n  Y[n, d] = softmax(‹X[n]›, reduced_dim=«d») * Z[d]\n  return Y[n, "
         "d]\n"},
        {"'d' is a dimension of the mask but not of what it masks",
         "def F(X[n], Z[d]):\n  Y[n, d] = softmax(‹X[n]›, reduced_dim=n, mask=Z[d] «>» 0) * Z[d]\n "
         " return Y[n, d]\n"},
        {"unknown function 'sofmax'; did you mean 'softmax' or 'max'?",
         "def F(X[n]):\n  Y[n] = «sofmax»(X[n], reduced_dim=n)\n  return Y[n]\n"},
        {"unknown function 'widows'; did you mean 'windows'?",
         "def F(X[n]):\n  Y[n] = «widows»(X[n], dim=n)\n  return Y[n]\n"},
        {"unknown function 'leaky_relu'; did you mean 'relu' or 'elu'?",
         "def F(X[n]):\n  Y[n] = «leaky_relu»(X[n])\n  return Y[n]\n"},
        {"unknown function 'argmax'; did you mean 'max'?",
         "def F(X[n]):\n  Y[n] = «argmax»(X[n])\n  return Y[n]\n"},
        {"unknown function 'norm'; did you mean 'layer_norm' or 'rms_norm'?",
         "def F(X[n]):\n  Y[n] = «norm»(X[n], dim=n)\n  return Y[n]\n"},
        {"unknown function 'convolution'; 'tete functions' lists them",
         "def F(X[n]):\n  Y[n] = «convolution»(X[n])\n  return Y[n]\n"},
        {"expected max(X[…], reduced_dim=d, mask=V[…]) with 1 argument, got 2; elementwise there "
         "is relu(x), "
         "clip(x, low, high) or select(a > b, a, b)",
         "def F(X[n]):\n  Y[n] = «max»(X[n], 0)\n  return Y[n]\n"},
        {"expected min(X[…], reduced_dim=d, mask=V[…]) with 1 argument, got 2; elementwise there "
         "is clip(x, "
         "low, "
         "high) or select(a < b, a, b)",
         "def F(X[n]):\n  Y[n] = «min»(X[n], 1)\n  return Y[n]\n"},
        {"'normal' is how a parameter starts; it stands in the arguments of a def",
         "def F(X[n]):\n  Y[n] = «normal»(X[n])\n  return Y[n]\n"},
        {"expected exp(x) with 1 argument, got 2",
         "def F(X[n]):\n  Y[n] = «exp»(X[n], X[n])\n  return Y[n]\n"},
        {"'softmax' needs reduced_dim=: it is softmax(x, reduced_dim=d, mask=V[…], extra_logit=z)",
         "def F(X[n]):\n  Y[n] = «softmax»(X[n])\n  return Y[n]\n"},
        {"'softmax' has no 'dim='; it is softmax(x, reduced_dim=d, mask=V[…], extra_logit=z)",
         "def F(X[n]):\n  Y[n] = softmax(X[n], «dim»=n)\n  return Y[n]\n"},
        {"'reduced_dim' is given twice",
         "def F(X[n]):\n  Y[n] = softmax(X[n], reduced_dim=n, «reduced_dim»=n)\n  return Y[n]\n"},
        {"reduced_dim= is one dimension, by its name, as in reduced_dim=d",
         "def F(X[n]):\n  Y[n] = softmax(X[n], reduced_dim=«2»)\n  return Y[n]\n"},
        {"reduced_dim= is one dimension, by its name, as in reduced_dim=d",
         "def F(X[n]):\n  Y[n] = softmax(X[n], reduced_dim=«(»n m))\n  return Y[n]\n"},
        {"'softmax' needs a tensor",
         "def F(X[n]):\n  Y[n] = softmax(«2», reduced_dim=n)\n  return Y[n]\n"},
        {"expected position(n): a dimension, by its name",
         "def F(X[n]):\n  Y[n] = position(«X[n]») + X[n]\n  return Y[n]\n"},
        {"'k' is not a sequence axis: the call's mask is over the first axes of X and M, "
         "and over l after Z[l, d] = M[m=(l), d]",
         "def F(X[n], Z[n, k]):\n  Y[n] = select(visible(«k»), X[n], 0)\n  return Y[n]\n"},
        {"a fixed element is picked by its number, as in a[0, h]",
         "def F(X[n], Z[n, k]):\n  Y[n] = gather(Z[n, k], «0», dim=k)\n  return Y[n]\n"},
        {"'kk' is not a dimension of 'F'; did you mean 'k'?",
         "def F(X[n], Z[n, k]):\n  Y[n] = gather(Z[n, k], position(n), dim=«kk»)\n  return Y[n]\n"},
        {"an operand of concat has one dimension that the left lacks, this has 2",
         "def F(X[n, a], Z[n, b]):\n  ‹Y[n, e]› = concat(«X[n, a]», X[n, a], dim=n)\n  return Y[n, "
         "e]\n"},
        {"'and' needs truth values, but this gives real numbers",
         "def F(X[n]):\n  Y[n] = «X[n]» and X[n]\n  return Y[n]\n"},
        {"'//' needs whole numbers, but this gives real numbers",
         "def F(X[n]):\n  Y[n] = «X[n]» // 2\n  return Y[n]\n"},
        {"the first argument of select needs truth values, but this gives real numbers",
         "def F(X[n]):\n  Y[n] = select(«X[n]», X[n], 0)\n  return Y[n]\n"},
        {"mask= needs truth values, but this gives real numbers",
         "def F(X[n]):\n  Y[n] = softmax(X[n], reduced_dim=n, mask=«X[n]»)\n  return Y[n]\n"},
        {"the second argument of gather needs whole numbers, but this gives real numbers",
         "def F(X[n], Z[n, k]):\n  Y[n] = gather(Z[n, k], «X[n]», dim=k)\n  return Y[n]\n"},
        {"an exponent is a number, not a tensor; 2^x is exp(x * log(2))",
         "def F(X[n]):\n  Y[n] = 2 ^ «X[n]»\n  return Y[n]\n"},
        {"'n' is given by itself", "def F(X[n]):\n  where n = «n»\n  return X[n]\n"},
        {"'d' is given twice", "def F(X[n, d]):\n  where ‹d› = 1, «d» = 2\n  return X[n, d]\n"},
        {"the size 'dd' is never used; did you mean 'd'?",
         "def F(X[n, d]):\n  where «dd» = 1\n  return X[n, d]\n"},
        {"only numbers and dimensions can stand here; 'X' is a tensor",
         "def F(X[n, d]):\n  where d = «X[n, d]»\n  return X[n, d]\n"},
        {"'d_k' is not a dimension of 'F'; there is n",
         "def F(X[n]):\n  Y[n] = X[n] / sqrt(«d_k»)\n  return Y[n]\n"},
        {"unknown initialiser 'gauss'; there are normal, truncated_normal, uniform, glorot, "
         "constant, zeros, ones, identity",
         "def F(X[n], P[n] = «gauss»(1)):\n  return X[n]\n"},
        {"unknown initialiser 'norml'; did you mean 'normal'?",
         "def F(X[n], P[n] = «norml»(1)):\n  return X[n]\n"},
        {"expected normal(deviation), got 0 arguments",
         "def F(X[n], P[n] = «normal»()):\n  return X[n]\n"},
        {"the parameter 'P' is never used: it would never learn",
         "def F(X[n], «P»[n] = ones()):\n  return X[n]\n"},
        {"'Y' is never used", "def F(X[n]):\n  «Y»[n] = exp(X[n])\n  return X[n]\n"},
        {"the call of a def is the whole right-hand side of a statement; give 'G(…)' a name first",
         "def F(X[n]):\n  Y[n] = 1 + «G»(X[n])\n  return Y[n]\ndef G(X[n]):\n  return X[n]\n"},
        {"the arguments of 'G' are tensors with their dimensions; give this a name first",
         "def F(X[n]):\n  Y[n] = G(2 «*» X[n])\n  return Y[n]\ndef G(X[n]):\n  return X[n]\n"},
        {"'G' needs its input 'X'",
         "def F(X[n]):\n  Y[n] = «G»()\n  return Y[n]\ndef G(‹X[n]›):\n  return X[n]\n"},
        {"'G' takes 1 argument, got 2",
         "def F(X[n]):\n  Y[n] = G(X[n], «X[n]»)\n  return Y[n]\ndef ‹G›(X[n]):\n  return X[n]\n"},
        {"'X' is passed twice",
         "def F(X[n]):\n  Y[n] = G(X[n], X=«X[n]»)\n  return Y[n]\ndef G(X[n], Z[n]):\n  return "
         "X[n]\n"},
        {"'G' has no argument 'ZZ'; did you mean 'Z'?",
         "def F(X[n]):\n  Y[n] = G(X[n], «ZZ»=X[n])\n  return Y[n]\ndef G(X[n], Z[n]):\n  return "
         "X[n]\n"},
        {"'X' has 1 dimension, but 2 are passed",
         "def F(X[n, d]):\n  Y[n, d] = G(«X[n, d]»)\n  return Y[n, d]\ndef G(‹X[n]›):\n  return "
         "X[n]\n"},
        {"'G' returns 1 dimension, but the left has 2",
         "def F(X[n]):\n  «Y[n, d]» = G(X[n])\n  return Y[n, d]\ndef G(X[n]):\n  return ‹X[n]›\n"},
        {"'F' calls itself",
         "def F(X[n]):\n  Y[n] = G(X[n])\n  return Y[n]\ndef G(X[n]):\n  Y[n] = «F»(X[n])\n  "
         "return Y[n]\n"},
        {"'F' calls itself", "def F(X[n]):\n  Y[n] = «F»(X[n])\n  return Y[n]\n"},
        {"there is no tensor 'Z'; there is X",
         "def F(X[n]):\n  return X[n]\ndef G(X[n]):\n  return «Z»[n]\n"},
        {"where 'M' is defined its dimensions have names, not numbers",
         "def F(X[n], M[«2», d] = X[n]):\n  return X[n]\n"},
        {"'G' reads its own sequence only: its 'M' is 'X', and another tensor cannot be passed",
         "def F(X[n], M[n]):\n  Y[n] = G(X[n], «M[n]»)\n  return Y[n]\ndef G(X[n], ‹M[m]› = "
         "X[n]):\n  Y[n] = einsum(X[n], M[m])\n  return Y[n]\n"},
    };
    check_messages(rows);
  }

  TEST_CASE("what each function takes, and what stands where") {
    const Marked rows[] = {
        {"expected exp(x) with 1 argument, got 2",
         "def F(X[n], Z[d]):\n  Y[n] = windows(X[n], dim=n, into=(n d), left=«exp»(2, 3))\n  "
         "return Y[n]\n"},
        {"a list of dimensions has no value; it belongs to a key like into=(o w)",
         "def F(X[n], Z[o, w]):\n  Y[n] = softmax(X[n], reduced_dim=n, mask=«(»o w))\n  return "
         "Y[n]\n"},
        {"a list of dimensions has no value; it belongs to a key like into=(o w)",
         "def F(X[n], Z[o, w]):\n  Y[n] = softmax(X[n], reduced_dim=n, extra_logit=«(»o w))\n  "
         "return Y[n]\n"},
        {"a statement has at most 24 names of dimensions, this has 25",
         "def F(X[a, b, c, d, e, f, g, h, i, j], Y[k, l, m, n, o, p, q, r, s, t], Z[u, v, w, x, "
         "y]):\n  «A[a]» = einsum(X[a,b,c,d,e,f,g,h,i,j], Y[k,l,m,n,o,p,q,r,s,t], Z[u,v,w,x,y], "
         "X[a,b,c,d,e,f,g,h,i,j], Y[k,l,m,n,o,p,q,r,s,t], Z[u,v,w,x,y])\n  return A[a]\n"},
        {"only numbers and dimensions can stand here; 'X' is a tensor",
         "def F(X[n], P[n] = normal(«X[n]»)):\n  return X[n]\n"},
        {"only numbers and dimensions can stand here; 'X' is a tensor",
         "def F(X[n], Z[d]):\n  Y[n] = windows(X[n], dim=n, into=(n d), left=«X[n]»)\n  return "
         "Y[n]\n"},
        {"'X' is a tensor: write it with its dimensions",
         "def F(X[n]):\n  Y[n] = X[n] + sqrt(«X»)\n  return Y[n]\n"},
        {"a size is made of numbers and dimensions, not of tensors",
         "def F(X[n]):\n  where n = «sum»(X[n], reduced_dim=n)\n  return X[n]\n"},
        {"only numbers and dimensions can stand here; 'X' is a tensor",
         "def F(X[n, d]):\n  where d = exp(«X[n, d]»)\n  return X[n, d]\n"},
        {"only numbers and dimensions can stand here; 'position' gives a tensor",
         "def F(X[n], Z[n, k]):\n  where k = «position»(n)\n  return X[n]\n"},
        {"only numbers and dimensions can stand here; 'index' gives a tensor",
         "def F(X[n], Z[n, k]):\n  where k = «index»(n)\n  return X[n]\n"},
        {"'not' needs truth values, but this gives real numbers",
         "def F(X[n]):\n  Y[n] = not «X[n]»\n  return Y[n]\n"},
        {"'%' needs whole numbers, but this gives real numbers",
         "def F(X[n]):\n  Y[n] = «1.5» % 2 + X[n]\n  return Y[n]\n"},
        {"into= is a list of dimensions, as in into=(o w)",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = windows(X[n], dim=n, into=«o») + Z[o, w]\n  return "
         "Y[o, w]\n"},
        {"into= is two dimensions, the windows and the places in one, as in (o w); got one twice",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = windows(X[n], dim=n, into=«(»o o)) + Z[o, w]\n  "
         "return Y[o, w]\n"},
        {"'w' is a dimension of 'X' already",
         "def F(X[n, w], Z[o, w]):\n  Y[o, w] = windows(‹X[n, w]›, dim=n, into=«(»o w)) + Z[o, "
         "w]\n  return Y[o, w]\n"},
        {"'w' is a dimension of windows(…) but not of the left",
         "def F(X[n], Z[o, w]):\n  ‹Y[o]› = «windows»(X[n], dim=n, into=(o w))\n  return Y[o]\n"},
        {"'o' is not a dimension of what windows are of",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = windows(‹X[n]›, dim=«o», into=(o w)) + Z[o, w]\n  "
         "return Y[o, w]\n"},
        {"'n' is not a dimension of what windows are of",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = windows(‹Z[o, w]›, dim=«n», into=(n w))\n  return "
         "Y[o, w]\n"},
        {"mask= is a tensor of truth values, but this is one number",
         "def F(X[n]):\n  Y[n] = softmax(X[n], reduced_dim=n, mask=1 «<» 2)\n  return Y[n]\n"},
        {"extra_logit= is one for each row: it has no 'm'",
         "def F(X[n, m]):\n  Y[n, m] = softmax(X[n, m], reduced_dim=m, extra_logit=«X[n, m]»)\n  "
         "return Y[n, m]\n"},
        {"'rotate' needs a tensor",
         "def F(X[n, d]):\n  Y[n, d] = rotate(«2», position(n), dim=d) + X[n, d]\n  return Y[n, "
         "d]\n"},
        {"the second argument of rotate needs whole numbers, but this gives real numbers",
         "def F(X[n, d]):\n  Y[n, d] = rotate(X[n, d], «X[n, d]», dim=d)\n  return Y[n, d]\n"},
        {"'d' is what is rotated, so the positions cannot have it",
         "def F(X[n, d]):\n  Y[n, d] = rotate(‹X[n, d]›, «index»(d), dim=d)\n  return Y[n, d]\n"},
        {"'e' is not a dimension of what is rotated",
         "def F(X[n, d], Z[e]):\n  Y[n, d] = rotate(‹X[n, d]›, position(n), dim=«e») + Z[e]\n  "
         "return Y[n, d]\n"},
        {"'d' is not a sequence axis here, so it has no positions; index(d) counts along any "
         "dimension",
         "def F(X[n, d]):\n  Y[n, d] = position(«d») + X[n, d]\n  return Y[n, d]\n"},
        {"'s' is a dimension of 'X' already",
         "def F(X[n, s], T[n, t]):\n  Y[n, t] = top_k(‹X[n, s]›, reduced_dim=n, dim=«s») + T[n, "
         "t]\n  return Y[n, t]\n"},
        {"'t' is a dimension of top_k(…) but not of the left",
         "def F(X[n, s], T[n, t]):\n  ‹Y[n]› = «top_k»(X[n, s], reduced_dim=s, dim=t)\n  return "
         "Y[n]\n"},
        {"'s' is replaced, so the positions cannot have it",
         "def F(X[n, s], T[r]):\n  Y[n, s] = gather(X[n, s], ‹index›(s), dim=«s»)\n  return Y[n, "
         "s]\n"},
        {"'r' is not a dimension of what is gathered from",
         "def F(X[n, s], T[r]):\n  Y[n, s] = gather(‹X[n, s]›, position(n), dim=«r»)\n  return "
         "Y[n, s]\n"},
        {"the positions have 'k', which what is scattered lacks",
         "def F(W[n, m], I[m, k] < r, R[r]):\n  Y[n, r] = scatter(‹W[n, m]›, «I[m, k]», "
         "reduced_dim=m, dim=r) + R[r]\n  return Y[n, r]\n"},
        {"'n' is a dimension of 'W' already",
         "def F(W[n, m], I[m] < n, R[r]):\n  Y[n] = scatter(‹W[n, m]›, I[m], reduced_dim=m, "
         "dim=«n»)\n  return Y[n]\n"},
        {"what is joined has as many dimensions each; this has 1, the first 2",
         "def F(X[n, d], Z[e]):\n  Y[n, e] = concat(‹X[n, d]›, X[n, d], «Z[e]», dim=e)\n  return "
         "Y[n, e]\n"},
        {"'d' is not a dimension of the left",
         "def F(X[n, d], Z[e]):\n  ‹Y[n, e]› = concat(X[n, d], X[n, d] , dim=«d»)\n  return Y[n, "
         "e]\n"},
        {"what is joined has elements of one kind; this has real numbers, the first truth values",
         "def F(X[n, d], B[n, c] ):\n  A[n, d] = X[n, d] < 1\n  Y[n, e] = concat(‹A[n, d]›, «B[n, "
         "c]», dim=e)\n  return Y[n, e]\n"},
        {"dimension 1 of 'B' is 'k', not 'n'; another name is given as k=(n)",
         "def F(X[n, d], ‹B[k, c]›, Z[k, n, e] ):\n  Y[n, e] = concat(X[n, d], B[«n»=(k), c], "
         "dim=e)\n  return Y[n, e]\n"},
        {"what is joined shares all dimensions but one; 'n' is in one of these only",
         "def F(X[n, d], B[k, c], Z[k, n, e] ):\n  Y[n, k, e] = concat(‹X[n, d]›, «B[k, c]», "
         "dim=e)\n  return Y[n, k, e]\n"},
        {"'a' and 'b' are both queries; the call's mask is over queries and memory, "
         "visible(n, m)",
         "def F(X[n], M[m]):\n  Y[n] = G(X[n], X[n])\n  return Y[n]\ndef G(A[a], B[b]):\n"
         "  W[a, b] = select(«visible»(a, b), A[a] * B[b], 0)\n"
         "  C[a] = sum(W[a, b], reduced_dim=b)\n  return C[a]\n"},
        {"'N' is used before it is defined",
         "def F(X[n], M[m] = «N»[m], ‹N›[n] = X[n]):\n  Y[n] = X[n]\n  return Y[n]\n"},
        {"'n' stands twice",
         "def F(X[n], M[m]):\n  Y[n] = select(visible(n, «n»), X[n], 0)\n  return Y[n]\n"},
        {"'d' is not a sequence axis: the call's mask is over the first axes of X and M, "
         "and over l after Z[l, d] = M[m=(l), d]",
         "def F(X[n, d], M[m, d], Z[m, n]):\n  Y[n, m] = select(visible(m, «d»), Z[m, n], 0)\n  "
         "return Y[n, m]\n"},
        {"'m' is a dimension of visible(…) but not of the left",
         "def F(X[n], M[m]):\n  ‹Y[n]› = select(«visible»(m), X[n], 0)\n  return Y[n]\n"},
        {"'einsum' takes tensors with their dimensions; give this a name in a statement of its own",
         "def F(X[n], M[m]):\n  Y[n] = einsum(X[n], «visible»(m))\n  return Y[n]\n"},
        {"expected visible(n, m) with 1 to 2 arguments, got 3",
         "def F(X[n]):\n  Y[n] = «visible»(n, m, n)\n  return Y[n]\n"},
        {"'layer_norm' needs a tensor",
         "def F(X[n, d]):\n  Y[n, d] = layer_norm(«2», dim=d) + X[n, d]\n  return Y[n, d]\n"},
        {"'k' is not a dimension of 'F'; there are d, n",
         "def F(X[n, d]):\n  Y[n, d] = dropout(X[n, d], shared=«k»)\n  return Y[n, d]\n"},
        {"expected ones(), got 1 argument",
         "def F(X[n], R[n<=k] = «ones»(1)):\n  Y[n] = X[n] * R[n]\n  return Y[n]\n"},
        {"ones() takes no names",
         "def F(X[n], R[n] = ones(«a»=1)):\n  Y[n] = X[n] * R[n]\n  return Y[n]\n"},
        {"the result of a def takes plain names; merge them in a statement of its own",
         "def F(X[n, h]):\n  Y[n, h=(a b)] = X[n, h=(a b)]\n  Z[n, «h»=(a b)] = G(X[n, h])\n  "
         "return Z[n, h]\ndef G(X[n, h]):\n  return X[n, h]\n"},
        {"an argument is written with the names it was defined with",
         "def F(X[n, h]):\n  Y[n, a] = G(«X[n, h=(a)]»)\n  return Y[n, a]\ndef G(X[n, h]):\n  "
         "return X[n, h]\n"},
        {"'X' is used with 2 dimensions, but it was defined with 1",
         "def F(‹X[n]›):\n  Y[n] = «X[n, n]»\n  return Y[n]\n"},
        {"'X' holds whole numbers, but real numbers are passed",
         "def F(X[n], Z[m]):\n  Y[n] = G(«X[n]»)\n  return Y[n]\ndef G(‹X[n]› < d):\n  return "
         "X[n]\n"},
        {"'Z' is never used",
         "def F(X[n], P[n] = ones()):\n  Y[n] = X[n] + P[n]\n  «Z»[n] = 2 * Y[n]\n  return Y[n]\n"},
        {"there is no tensor 'Q'; there is X", "def F(X[n], M[m] = «Q»[m]):\n  return X[n]\n"},
        {"dimension 1 of 'X' is 'n', not 'm'; another name is given as n=(m)",
         "def F(M[m] = X[«m»], ‹X[n]›):\n  return X[n]\n"},
        {"'e' is not a dimension of 'F'; there are d, m, n",
         "def F(X[n, d], M[m, d] = X[n, d=(«e»)]):\n  return X[n, d]\n"},
        {"an input is written with the names it was defined with",
         "def F(X[n, d], M[m, d] = «X[0, d]»):\n  return X[n, d]\n"},
        {"'e' is not a dimension of 'F'; there are d, n",
         "def F(X[n, d]):\n  return X[n, d=(«e»)]\n"},
        {"there is no tensor 'Z'; there is X", "def F(X[n, d]):\n  return «Z»[n, d]\n"},
        {"'X' is used with 1 dimension, but it was defined with 2",
         "def F(‹X[n, d]›):\n  return «X[n]»\n"},
        {"only a parameter has a largest length; 'Y' is none",
         "def F(X[n]):\n  Y[n<=«k»] = X[n]\n  return Y[n]\n"},
        {"where 'Y' is defined its dimensions have names, not numbers",
         "def F(X[n]):\n  Y[«0», n] = X[n]\n  return Y[n]\n"},
    };
    check_messages(rows);
  }
}
