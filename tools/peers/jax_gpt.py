"""A training step of a small GPT in JAX, compiled as one: forward, gradient, clipping, AdamW; on tokens
drawn by chance. The model is that of torch_gpt.py."""
import argparse

from turns import keep_to_cores, need, refuse, serve

jax = need("jax", "JAX")
jnp = jax.numpy


def draw(a, key):
    """All parameters by name, those of the blocks in a list."""
    d = a.d_model
    keys = iter(jax.random.split(key, 2 + 4 * a.layers))

    def linear(columns, rows):
        bound = columns**-0.5
        return jax.random.uniform(next(keys), (columns, rows), minval=-bound, maxval=bound)

    def norm():
        return {"scale": jnp.ones(d), "shift": jnp.zeros(d)}

    def block():
        p = {"norms": [norm(), norm()], "qkv": linear(d, 3 * d), "out": linear(d, d),
             "in": linear(d, 4 * d), "in_bias": jnp.zeros(4 * d), "down": linear(4 * d, d), "down_bias": jnp.zeros(d)}
        if a.attention == "talking_heads":
            p |= {"P_l": jnp.eye(a.heads), "P_w": jnp.eye(a.heads)}
        return p

    return {"tokens": 0.02 * jax.random.normal(next(keys), (a.vocabulary, d)),
            "positions": 0.02 * jax.random.normal(next(keys), (a.context, d)),
            "blocks": [block() for _ in range(a.layers)], "norm": norm()}


def layer_norm(x, p):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def attention(heads, x, p):
    b, n, d = x.shape
    q, k, v = (y.reshape(b, n, heads, -1) for y in jnp.split(x @ p["qkv"], 3, -1))
    J = jnp.einsum("bnhk,bmhk->bhnm", q, k) / (d // heads) ** 0.5
    if "P_l" in p:
        J = jnp.einsum("binm,ij->bjnm", J, p["P_l"])
    W = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((n, n), bool)), J, -jnp.inf), -1)
    if "P_w" in p:
        W = jnp.einsum("binm,ij->bjnm", W, p["P_w"])
    return jnp.einsum("bhnm,bmhv->bnhv", W, v).reshape(b, n, d) @ p["out"]


def loss(heads, p, tokens, targets):
    x = p["tokens"][tokens] + p["positions"]
    for block in p["blocks"]:
        x = x + attention(heads, layer_norm(x, block["norms"][0]), block)
        h = jax.nn.gelu(layer_norm(x, block["norms"][1]) @ block["in"] + block["in_bias"], approximate=False)
        x = x + h @ block["down"] + block["down_bias"]
    logits = layer_norm(x, p["norm"]) @ p["tokens"].T
    right = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - right).mean()


def adamw(p, g, m, v, step, rate=1e-3, beta1=0.9, beta2=0.99, epsilon=1e-8, decay=0.1):
    """One parameter's update, decayed where it is a matrix."""
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    p = p * (1 - rate * decay) if p.ndim > 1 else p
    return p - rate * (m / (1 - beta1**step)) / (jnp.sqrt(v / (1 - beta2**step)) + epsilon), m, v


def train_step(heads):
    def run(state, tokens, targets):
        p, m, v, step = state
        value, g = jax.value_and_grad(lambda p: loss(heads, p, tokens, targets))(p)
        norm = jnp.sqrt(sum(jnp.sum(x * x) for x in jax.tree.leaves(g)))
        g = jax.tree.map(lambda x: x * jnp.minimum(1, 1 / (norm + 1e-6)), g)
        step = step + 1
        new = [adamw(*leaves, step) for leaves in zip(*map(jax.tree.leaves, (p, g, m, v)))]
        p, m, v = (jax.tree.unflatten(jax.tree.structure(p), part) for part in zip(*new))
        return (p, m, v, step), value

    return jax.jit(run, donate_argnums=0)


def main():
    p = argparse.ArgumentParser()
    for size in ("layers", "heads", "d-model", "context", "batch", "vocabulary", "threads"):
        p.add_argument("--" + size, type=int)
    p.add_argument("--attention")
    p.add_argument("--mode", choices=["check", "jit"])
    a = p.parse_args()
    if a.attention not in ("multi_head", "talking_heads"):
        refuse(f"there is no program for '{a.attention}' (there are multi_head and talking_heads)")
    if a.mode == "check":
        return serve(lambda: None, jax)
    keep_to_cores(a.threads)
    jax.config.update("jax_platforms", "cpu")
    numpy = need("numpy", "NumPy")
    chance = numpy.random.default_rng(0)
    P = draw(a, jax.random.key(0))
    zeros = [jax.tree.map(jnp.zeros_like, P) for _ in range(2)]
    state = (P, *zeros, jnp.float32(0))
    step = train_step(a.heads)

    def call():
        nonlocal state
        tokens, targets = chance.integers(a.vocabulary, size=(2, a.batch, a.context), dtype=numpy.int32)
        state, value = step(state, tokens, targets)
        return float(value)

    serve(call, jax)


if __name__ == "__main__":
    main()
