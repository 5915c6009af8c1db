"""One layer of attention in PyTorch, forward and gradient, as its users write it: products as einsum or
@, heads before positions, and scaled_dot_product_attention where it can be used (--mode sdpa)."""
import math

from turns import layer_arguments, need, refuse, serve

torch = need("torch", "PyTorch")


def softmax_attention(see):
    """O from queries, keys and values, each [b, h, n, d]. `logits` and `weights` are done to what is
    [b, h, n, m]."""

    def attend(Q, K, V, logits=lambda J: J, weights=lambda W: W):
        L = logits(Q @ K.transpose(-1, -2))
        if see is not None:
            L = L.masked_fill(~see, float("-inf"))
        return weights(torch.softmax(L, -1)) @ V

    return attend


def bias_by_distance(a, draw):
    """What --with adds to the logits, as a function that makes it, [h, n, m]; and its parameters."""
    n, m = a.length, a.memory_length or a.length
    distance = torch.arange(m)[None, :] - torch.arange(n)[:, None]
    if a.amendment is None:
        return None, []
    if a.amendment == "alibi":
        slope = torch.exp2(-8 * torch.arange(1, a.heads + 1) / a.heads)
        bias = -slope[:, None, None] * distance.abs()
        return lambda: bias, []
    table = draw(32, a.heads)
    far = distance.abs()
    ratio = torch.log(far.clamp(min=1) / 8) / math.log(128 / 8)  # of 16 buckets on each side 8 are exact
    bucket = torch.where(far < 8, far, 8 + (8 * ratio).long().clamp(max=7)) + 16 * (distance > 0)
    return lambda: table[bucket].permute(2, 0, 1), [table]


def layer(a, draw, see):
    """The function of X and M, and its parameters; draw(shape) makes one."""
    d, h = a.d_model, a.heads
    if a.variant == "general_bilinear":
        P, Q = draw(d, d, h), draw(d, d, h)

        def bilinear(X, M):
            L = torch.einsum("bnhe,bme->bhnm", torch.einsum("bnd,deh->bnhe", X, P), M)
            if see is not None:
                L = L.masked_fill(~see, float("-inf"))
            O = torch.einsum("bhnm,bme->bhne", torch.softmax(L, -1), M)
            return torch.einsum("bhne,edh->bnd", O, Q)

        return bilinear, [P, Q]

    parameters = P_q, P_k, P_v, P_o = [draw(d, h, d // h) for _ in range(3)] + [draw(h, d // h, d)]
    mixed_logits = a.variant in ("talking_heads", "project_logits", "dynamic_projections")
    mixed_weights = a.variant in ("talking_heads", "project_weights", "dynamic_projections")
    P_l, P_w = draw(h, h), draw(h, h)
    parameters += [P_l] * mixed_logits + [P_w] * mixed_weights
    generators = [draw(d, h, h) for _ in range(4)] if a.variant == "dynamic_projections" else []
    attend = softmax_attention(see)
    bias, tables = bias_by_distance(a, draw)

    def mix(J, P, X, M, of_query, of_memory):
        """Heads i become heads j; by matrices that queries and memories generate, too."""
        y = torch.einsum("binm,ij->bjnm", J, P)
        if generators:
            y = y + torch.einsum("binm,bnij->bjnm", J, torch.einsum("bnd,dij->bnij", X, of_query))
            y = y + torch.einsum("binm,bmij->bjnm", J, torch.einsum("bmd,dij->bmij", M, of_memory))
        return y

    def forward(X, M):
        Q = torch.einsum("bnd,dhk->bhnk", X, P_q)
        K = torch.einsum("bmd,dhk->bhmk", M, P_k)
        V = torch.einsum("bmd,dhv->bhmv", M, P_v)
        if a.mode == "sdpa":
            mask = bias()[None].to(Q.dtype) if bias else None
            O = torch.nn.functional.scaled_dot_product_attention(Q, K, V, mask, is_causal=a.causal, scale=1.0)
        else:
            X_l, M_l, X_w, M_w = generators or [None] * 4
            by = {}
            if mixed_logits or bias:
                mixed = lambda J: mix(J, P_l, X, M, X_l, M_l) if mixed_logits else J
                by["logits"] = lambda J: mixed(J) + bias() if bias else mixed(J)
            if mixed_weights:
                by["weights"] = lambda W: mix(W, P_w, X, M, X_w, M_w)
            O = attend(Q, K, V, **by)
        return torch.einsum("bhnv,hvd->bnd", O, P_o)

    return forward, parameters + generators + tables


def main():
    a = layer_arguments(["check", "eager", "compile", "sdpa", "bf16"], ["alibi", "t5_bias"])
    if a.amendment and a.causal:
        refuse("there is no causal program with a bias")
    if a.mode == "check":
        return serve(lambda: None, torch)
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    dtype = torch.float64 if a.dtype == "f64" else torch.float32

    def draw(*shape):
        return (torch.randn(shape, dtype=dtype) / (8 * shape[0]) ** 0.5).requires_grad_(not a.forward)

    def vectors(length):
        return torch.randn(a.batch, length, a.d_model, dtype=dtype)

    see = None
    if a.causal and a.mode != "sdpa":
        see = torch.ones(a.length, a.memory_length or a.length, dtype=torch.bool)
        see = see.tril(see.shape[1] - see.shape[0])
    f, parameters = layer(a, draw, see)
    if a.mode == "compile":
        f = torch.compile(f)
    X = vectors(a.length).requires_grad_(not a.forward)
    M = vectors(a.memory_length).requires_grad_(not a.forward) if a.memory_length else X
    G = vectors(a.length)

    def call():
        for x in [X, M] + parameters:
            x.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=a.mode == "bf16"):
            Y = f(X, M)
        if not a.forward:
            Y.backward(G.to(Y.dtype))

    with torch.set_grad_enabled(not a.forward):
        serve(call, torch)


main()
