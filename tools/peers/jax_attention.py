"""One layer of attention in JAX, compiled, forward and gradient: products as einsum, heads before
positions, and XLA free to join them."""
from turns import keep_to_cores, layer_arguments, need, serve

jax = need("jax", "JAX")
jnp = jax.numpy


def layer(a, see):
    """The function of X, M and parameters by name, and their shapes."""
    d, h = a.d_model, a.heads

    def softmax(L):
        return jax.nn.softmax(L if see is None else jnp.where(see, L, -jnp.inf), -1)

    if a.variant == "general_bilinear":

        def bilinear(X, M, p):
            L = jnp.einsum("bnhe,bme->bhnm", jnp.einsum("bnd,deh->bnhe", X, p["P"]), M)
            return jnp.einsum("bhne,edh->bnd", jnp.einsum("bhnm,bme->bhne", softmax(L), M), p["Q"])

        return bilinear, {"P": (d, d, h), "Q": (d, d, h)}

    dynamic = a.variant == "dynamic_projections"
    mixed = [kind for kind, variants in (("l", ("talking_heads", "project_logits", "dynamic_projections")),
                                         ("w", ("talking_heads", "project_weights", "dynamic_projections")))
             if a.variant in variants]
    shapes = {"P_q": (d, h, d // h), "P_k": (d, h, d // h), "P_v": (d, h, d // h), "P_o": (h, d // h, d)}
    shapes |= {f"P_{kind}": (h, h) for kind in mixed}
    shapes |= {f"{of}_{kind}": (d, h, h) for kind in mixed for of in ("X", "M") if dynamic}

    def mix(J, kind, X, M, p):
        """Heads i become heads j; by matrices that queries and memories generate, too."""
        if kind not in mixed:
            return J
        y = jnp.einsum("binm,ij->bjnm", J, p["P_" + kind])
        if dynamic:
            y += jnp.einsum("binm,bnij->bjnm", J, jnp.einsum("bnd,dij->bnij", X, p["X_" + kind]))
            y += jnp.einsum("binm,bmij->bjnm", J, jnp.einsum("bmd,dij->bmij", M, p["M_" + kind]))
        return y

    def forward(X, M, p):
        Q = jnp.einsum("bnd,dhk->bhnk", X, p["P_q"])
        K = jnp.einsum("bmd,dhk->bhmk", M, p["P_k"])
        V = jnp.einsum("bmd,dhv->bhmv", M, p["P_v"])
        W = softmax(mix(jnp.einsum("bhnk,bhmk->bhnm", Q, K), "l", X, M, p))
        O = jnp.einsum("bhnm,bhmv->bhnv", mix(W, "w", X, M, p), V)
        return jnp.einsum("bhnv,hvd->bnd", O, p["P_o"])

    return forward, shapes


def with_gradient(f, own_memory):
    """Y, and the gradients of X, M where it has a memory of its own, and all parameters."""

    def call(X, M, p, G):
        if own_memory:
            Y, back = jax.vjp(f, X, M, p)
        else:
            Y, back = jax.vjp(lambda X, p: f(X, X, p), X, p)
        return Y, back(G)

    return call


def main():
    a = layer_arguments(modes=["check", "jit"])
    if a.mode == "check":
        return serve(lambda: None, jax)
    keep_to_cores(a.threads)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", a.dtype == "f64")
    dtype = jnp.float64 if a.dtype == "f64" else jnp.float32
    memory_length = a.memory_length or a.length
    see = None
    if a.causal:
        see = jnp.tril(jnp.ones((a.length, memory_length), bool), memory_length - a.length)
    f, shapes = layer(a, see)
    keys = iter(jax.random.split(jax.random.key(0), len(shapes) + 3))
    P = {name: jax.random.normal(next(keys), shape, dtype) / (8 * shape[0]) ** 0.5
         for name, shape in shapes.items()}
    X = jax.random.normal(next(keys), (a.batch, a.length, a.d_model), dtype)
    M = jax.random.normal(next(keys), (a.batch, memory_length, a.d_model), dtype) if a.memory_length else X
    G = jax.random.normal(next(keys), X.shape, dtype)
    if a.forward:
        compiled = jax.jit(f if a.memory_length else lambda X, M, p: f(X, X, p))
        serve(lambda: jax.block_until_ready(compiled(X, M, P)), jax)
    else:
        compiled = jax.jit(with_gradient(f, a.memory_length is not None))
        serve(lambda: jax.block_until_ready(compiled(X, M, P, G)), jax)


if __name__ == "__main__":
    main()
