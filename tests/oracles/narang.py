#!/usr/bin/env python3
"""Rows of Narang et al. 2021 in plain loops over positions and heads, as oracles of our texts.

    tests/oracles/narang.py BUILD/tools/tete [CASE…]  # writes tests/data/models/CASE.safetensors

Written from the papers that the texts of nn/blocks name, not from these texts: each sample alone,
its source without padding, position by position. The program says only how parameters are called
and shaped; they are drawn here. The files are like those of transformers.py, and have `use`, what
fills the slots, too. Needs numpy.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy

d, h, f, v = 4, 2, 6, 11  # the width, the heads, the hidden width, the tokens
n, m = 5, 9  # the lengths of the target and of the source
lengths = (9, 6)


# ---- Files ----
def read(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: tuple(entry["shape"]) for name, entry in header.items()}


def write(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, x in sorted(tensors.items()):
        kind = "I64" if x.dtype == numpy.int64 else "F64"
        bytes_of = numpy.ascontiguousarray(x).tobytes()
        place = [len(data), len(data) + len(bytes_of)]
        header[name] = dict(dtype=kind, shape=list(x.shape), data_offsets=place)
        data += bytes_of
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


# ---- Parts ----
def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def relu(x):
    return numpy.maximum(x, 0)


def softmax(x):
    e = numpy.exp(x - max(x))
    return e / e.sum()


def log_softmax(x):
    return numpy.log(softmax(x))


class Part:
    """The parameters below a path."""

    def __init__(self, all, path=""):
        self.all, self.path = all, path

    def __getitem__(self, name):
        return self.all[self.path + name]

    def at(self, path):
        return Part(self.all, self.path + path)


def norm(p, x, eps=1e-5):
    mean = sum(x) / len(x)
    variance = sum((x - mean) ** 2) / len(x)
    return (x - mean) / numpy.sqrt(variance + eps) * p["gamma"] + p["beta"]


def norms(p, X):
    return [norm(p, x) for x in X]


def feed_forward(p, x, activation=relu):
    return activation(x @ p["P_1"] + p["b_1"]) @ p["P_2"] + p["b_2"]


def heads_of(p, X, M, causal, scale=1):
    """What each head gives each query, before the output layer."""
    rows = []
    for i, x in enumerate(X):
        seen = M[: i + 1] if causal else M
        of_heads = []
        for g in range(p["P_q"].shape[2]):
            q = x @ p["P_q"][:, :, g]
            w = softmax(numpy.array([q @ (y @ p["P_k"][:, :, g]) * scale for y in seen]))
            of_heads.append(sum(a * (y @ p["P_v"][:, :, g]) for a, y in zip(w, seen)))
        rows.append(of_heads)
    return rows


def attention(p, X, M, causal=False, scale=1):
    return [
        sum(p["P_o"][:, :, g] @ o for g, o in enumerate(of_heads))
        for of_heads in heads_of(p, X, M, causal, scale)
    ]


def plus(X, Y):
    return [x + y for x, y in zip(X, Y)]


# ---- A baseline, whose parts the rows replace ----
class Vanilla:
    text, use, layers, sizes = "vanilla", "", 2, {}

    def logits(self, p, X, M):
        p = Part(p)
        S = [p["E"][t] + p["P"][i] for i, t in enumerate(M)]
        T = [p["E"][t] + p["P"][i] for i, t in enumerate(X)]
        A = self.encoder(p.at("encoder."), S)
        D = self.decoder(p.at("decoder/"), T, A)
        return [self.output(p, x * d**-0.5) for x in D]

    def output(self, p, x):
        return p["E"] @ x

    def encoder(self, p, X):
        for i in range(self.layers):
            X = self.encoder_block(p.at(f"Z/{i}/"), X)
        return norms(p.at("N."), X)

    def decoder(self, p, X, M):
        for i in range(self.layers):
            X = self.decoder_block(p.at(f"Z/{i}/"), X, M)
        return norms(p.at("N."), X)

    def encoder_block(self, p, X):
        N = norms(p.at("N."), X)
        X = plus(X, self.attend(p.at("A/"), N, False))
        return plus(X, self.forward(p, norms(p.at("C."), X)))

    def decoder_block(self, p, X, M):
        N = norms(p.at("N."), X)
        X = plus(X, self.attend(p.at("A/"), N, True))
        X = plus(X, attention(p.at("D/"), norms(p.at("C."), X), M))
        return plus(X, self.forward(p, norms(p.at("G."), X)))

    def attend(self, p, X, causal):
        return attention(p, X, X, causal)

    def forward(self, p, X):
        return [feed_forward(p.at("F."), x) for x in X]


# ---- Rows ----
class Universal(Vanilla):
    """Dehghani et al. 2019: one block again and again; in the middle an embedding of the step."""

    text, use = "tied_inputs", "Encoder=universal_encoder Decoder=universal_decoder"
    layers = 6

    def logits(self, p, X, M):
        p = Part(p)
        S = [p["E"][t] + p["P"][i] for i, t in enumerate(M)]
        T = [p["E"][t] + p["P"][i] for i, t in enumerate(X)]
        D = self.decoder(p.at("decoder/"), T, self.encoder(p.at("encoder."), S))
        return [p["Y.E"] @ x for x in D]

    def gated(self, p, X, Y):
        made = []
        for x, y in zip(X, Y):
            z = sigmoid(x @ p["Z_X"] + y @ p["Z_Y"])
            r = sigmoid(x @ p["R_X"] + y @ p["R_Y"])
            c = sigmoid((r * x) @ p["C_X"] + y @ p["C_Y"])
            made.append(x + (1 - z) * y + z * c)
        return made

    def steps(self, p, X, block):
        for i in range(self.layers):
            if 2 <= i < self.layers - 2:
                X = [x + p["T"][i - 2] for x in X]
            X = block(p.at("Z/"), X)
        return norms(p.at("N."), X)

    def encoder(self, p, X):
        def block(p, X):
            N = norms(p.at("N."), X)
            X = self.gated(p.at("G."), X, attention(p.at("A/"), N, N))
            return self.gated(p.at("H."), X, self.forward(p, norms(p.at("C."), X)))

        return self.steps(p, X, block)

    def decoder(self, p, X, M):
        def block(p, X):
            N = norms(p.at("N."), X)
            X = self.gated(p.at("G."), X, attention(p.at("A/"), N, N, causal=True))
            C = norms(p.at("C."), X)
            X = self.gated(p.at("H."), X, attention(p.at("D/"), C, M))
            return self.gated(p.at("L."), X, self.forward(p, norms(p.at("K."), X)))

        return self.steps(p, X, block)


def separable(X, kernel, P, left):
    """Taps over positions, one kernel for each channel, then a matrix over channels."""
    made = []
    for i in range(len(X)):
        taps = 0 * X[0]
        for t in range(len(kernel)):
            if 0 <= i + t - left < len(X):
                taps = taps + kernel[t] * X[i + t - left]
        made.append(taps @ P)
    return made


def padded(x, width):
    return numpy.concatenate([x, numpy.zeros(width - len(x))])


class Evolved(Vanilla):
    """So, Liang, Le 2019, figure 3."""

    use, layers = "EncoderBlock=evolved_encoder DecoderBlock=evolved_decoder", 2

    def encoder_block(self, p, X):
        X = plus(X, [(x @ p["P_1"]) * sigmoid(x @ p["P_g"]) for x in norms(p.at("N."), X)])
        B, zero = norms(p.at("B."), X), numpy.zeros(d)
        H = []
        for i, x in enumerate(B):
            around = [B[j] if 0 <= j < len(B) else zero for j in (i - 1, i, i + 1)]
            narrow = relu(sum(y @ p["F_3"][t] for t, y in enumerate(around)))
            H.append(relu(x @ p["P_w"]) + padded(narrow, 4 * d))
        K = separable(norms(p.at("I."), H), p["F_9"], p["P_2"], left=4)
        X = plus(X, [padded(x, d) for x in K])
        D = norms(p.at("D."), X)
        X = plus(X, attention(p.at("O/"), D, D))
        return plus(X, self.forward(p, norms(p.at("S."), X)))

    def decoder_block(self, p, X, M):
        N = norms(p.at("N."), X)
        both = plus(attention(p.at("A/"), N, N, True), attention(p.at("Z/"), N, N, True))
        X = plus(X, plus(both, attention(p.at("B/"), N, M)))
        D = norms(p.at("D."), X)
        wide = [relu(x) for x in separable(D, p["F_11"], p["P_w"], left=10)]
        narrow = separable(D, p["F_7"], p["P_s"], left=6)
        H = [x + padded(y, 2 * d) for x, y in zip(wide, narrow)]
        X = plus(X, separable(norms(p.at("J."), H), p["F_o"], p["P_o"], left=6))
        Q = norms(p.at("Q."), X)
        X = plus(X, attention(p.at("S/"), Q, Q, True))
        X = plus(X, attention(p.at("b/"), norms(p.at("a."), X), M))
        swish = lambda x: x * sigmoid(x)
        last = norms(p.at("f."), X)
        return plus(X, [feed_forward(p.at("F."), x, swish) for x in last])


class Funnel(Vanilla):
    """Dai et al. 2020: pairs of places become one behind attention of the first block, twice."""

    use, layers = "Encoder=funnel", 6

    def encoder(self, p, X):
        for i in range(2):
            X = self.encoder_block(p.at(f"A/{i}/"), X)
        X = self.encoder_block(p.at("C/0/"), self.halved(p.at("B."), X))
        X = self.encoder_block(p.at("Z/0/"), self.halved(p.at("D."), X))
        return norms(p.at("N."), X)

    def halved(self, p, X):
        N = norms(p.at("N."), X)
        X = plus(X, attention(p.at("A/"), N, N))
        X = [(X[2 * i] + X[2 * i + 1]) / 2 for i in range(len(X) // 2)]
        return plus(X, self.forward(p, norms(p.at("C."), X)))


class Weighted(Vanilla):
    """Ahmed, Keskar, Socher 2017: a feed-forward layer behind each head, weights that sum to 1."""

    use = "EncoderBlock=attention_only DecoderBlock=attention_only_cross Attention=branched"

    def branched(self, p, X, M, causal=False):
        kappa, alpha = (p[name] / (p[name] + 1e-4 / h).sum() for name in ("kappa", "alpha"))
        return [
            sum(
                alpha[g] * feed_forward(p, kappa[g] * (p["P_o"][:, :, g] @ o))
                for g, o in enumerate(of_heads)
            )
            for of_heads in heads_of(p, X, M, causal)
        ]

    def encoder_block(self, p, X):
        N = norms(p.at("N."), X)
        return plus(X, self.branched(p.at("A/"), N, N))

    def decoder_block(self, p, X, M):
        N = norms(p.at("N."), X)
        X = plus(X, self.branched(p.at("A/"), N, N, True))
        return plus(X, self.branched(p.at("D/"), norms(p.at("C."), X), M))


class Switch(Vanilla):
    """Fedus et al. 2021: the expert of the largest chance, while it has places."""

    use, experts, choices = "FeedForward=switch", 3, 1
    sizes = dict(e=3, f_e=5)

    def encoder_block(self, p, X):
        self.rows = m  # an expert has places for a padded source
        return super().encoder_block(p, X)

    def decoder_block(self, p, X, M):
        self.rows = n
        return super().decoder_block(p, X, M)

    def places(self):
        return -(-5 * self.rows // (4 * self.experts))

    def forward(self, p, X):
        p = p.at("F.")
        taken, made = numpy.zeros((self.choices, self.experts), int), []
        for x in X:
            chances = softmax(x @ p["R"])
            best = numpy.argsort(-chances)[: self.choices]
            total, y = sum(chances[best]) + 1e-9, 0 * x
            for k, e in enumerate(best):
                if taken[k, e] < self.places():
                    taken[k, e] += 1
                    gate = chances[e] if self.choices == 1 else chances[e] / total
                    y = y + gate * (relu(x @ p["P_1"][e]) @ p["P_2"][e])
            made.append(y)
        return made


class MixtureOfExperts(Switch):
    """Shazeer et al. 2017: two of them, each choice with places of its own."""

    use, choices = "FeedForward=moe", 2

    def places(self):
        return -(-self.rows // self.experts)


class ProductKeys(Vanilla):
    """Lample et al. 2019: the k best of all pairs of keys, by the sum of both halves' products."""

    use, best = "decoder.FeedForward[1]=product_keys", 3
    sizes = {"g": 2, "s": 4, "k": 3, "decoder.Z.F.c": 3}

    def decoder_block(self, p, X, M):
        self.remembers = "Z/1/" in p.path
        return super().decoder_block(p, X, M)

    def encoder_block(self, p, X):
        self.remembers = False
        return super().encoder_block(p, X)

    def forward(self, p, X):
        if not self.remembers:
            return super().forward(p, X)
        return [self.remember(p.at("F."), x) for x in X]

    def remember(self, p, x):
        plain, y = dict(gamma=1, beta=0), 0 * x
        for g in range(2):
            one = norm(plain, x @ p["P_1"][:, g] + p["b_1"][g], 1e-6)
            two = norm(plain, x @ p["P_2"][:, g] + p["b_2"][g], 1e-6)
            scores = {
                4 * i + j: one @ p["K_1"][g, i] + two @ p["K_2"][g, j]
                for i in range(4)
                for j in range(4)
            }
            best = sorted(scores, key=scores.get)[-self.best :]
            weights = softmax(numpy.array([scores[place] for place in best]))
            y = y + sum(w * p["V"][place] for w, place in zip(weights, best))
        return y


class LightweightConvolution(Vanilla):
    """Wu et al. 2019: softmax over the taps of each channel; no tap behind a decoder's position."""

    use = "Attention=lightweight_convolution Cross=multi_head"

    def taps(self, p, x):
        return p["F"]  # [t, channels]

    def attend(self, p, X, causal):
        G = [(x @ p["P_1"]) * sigmoid(x @ p["P_g"]) for x in X]
        made = []
        for i, x in enumerate(G):
            taps = self.taps(p, x)
            y = 0 * x
            for channel in range(d):
                w = softmax(taps[:, channel])
                for t in range(9):
                    j = i + t - (8 if causal else 4)
                    if 0 <= j < len(G):
                        y[channel] += w[t] * G[j][channel]
            made.append(y @ p["P_2"] @ p["P_o"])
        return made


class DynamicConvolution(LightweightConvolution):
    """... whose taps each position makes for itself."""

    use = "Attention=dynamic_convolution Cross=multi_head"

    def taps(self, p, x):
        return numpy.einsum("g,gtc->tc", x, p["F"])


class MixtureOfSoftmaxes(Vanilla):
    """Yang et al. 2018: the log of a mixture of k softmaxes over the words."""

    use, sizes = "Output=mixture_of_softmaxes", dict(k=3)

    def output(self, p, x):
        weights = softmax(p["Y.A"] @ x)
        chances = [softmax(p["E"] @ numpy.tanh(x @ p["Y.C"][k])) for k in range(3)]
        return numpy.log(sum(w * c for w, c in zip(weights, chances)))


class AdaptiveOutput(Vanilla):
    """Grave et al. 2017: frequent words and clusters, then within a cluster; 3 + 4 + 2 + 2."""

    use, sizes = "Output=adaptive_output", dict(v_1=3, v_2=4, v_4=2)

    def output(self, p, x):
        scores, clusters = p["E"] @ x, p["Y.C"] @ x
        head = log_softmax(numpy.concatenate([scores[:3], clusters]))
        made = list(head[:3])
        for cluster, (first, last) in enumerate(((3, 7), (7, 9), (9, 11))):
            made += list(head[3 + cluster] + log_softmax(scores[first:last]))
        return numpy.array(made)


class AdaptiveInput(Vanilla):
    """Baevski, Auli 2019: embeddings of three clusters, the rarer the narrower; 3 + 4 + 4 words."""

    text, sizes = "adaptive_input", dict(v_1=3, v_2=4, d_2=3, d_3=2)
    clusters = ((3, "E_1", None), (7, "E_2", "P_2"), (11, "E_3", "P_3"))

    def embedding(self, p, token):
        first = 0
        for last, table, wider in self.clusters:
            if token < last:
                x = p[table][token - first]
                return x @ p[wider] if wider else x
            first = last

    def logits(self, p, X, M):
        p = Part(p)
        S = [self.embedding(p, t) + p["P"][i] for i, t in enumerate(M)]
        T = [self.embedding(p, t) + p["P"][i] for i, t in enumerate(X)]
        D = self.decoder(p.at("decoder/"), T, self.encoder(p.at("encoder."), S))
        return [self.output(p, x * d**-0.5) for x in D]

    def scores(self, p, x):
        return [p[table] @ (p[wider] @ x if wider else x) for _, table, wider in self.clusters]

    def output(self, p, x):
        return numpy.concatenate(self.scores(p, x))


class AdaptiveSoftmax(AdaptiveInput):
    """Grave et al. 2017: the chance of a cluster, and of a word in it; 3 + 4 + 2 + 2 words."""

    text, sizes = "adaptive_softmax", dict(v_1=3, v_2=4, v_4=2, d_2=3, d_3=2)
    clusters = ((3, "E_1", None), (7, "E_2", "P_2"), (9, "E_3", "P_3"), (11, "E_4", None))

    def output(self, p, x):
        frequent, *others = self.scores(p, x)
        head = log_softmax(numpy.concatenate([frequent, p["C"] @ x]))
        tails = [head[3 + i] + log_softmax(tail) for i, tail in enumerate(others)]
        return numpy.concatenate([head[:3], *tails])


class Transparent(Vanilla):
    """Bapna et al. 2018: each block of the decoder has a mixture of all states of the encoder."""

    text = "transparent"

    def logits(self, p, X, M):
        p = Part(p)
        states = [[p["E"][t] + p["P"][i] for i, t in enumerate(M)]]
        for i in range(self.layers):
            states.append(self.encoder_block(p.at(f"encoder/{i}/"), states[-1]))
        T = [p["E"][t] + p["P"][i] for i, t in enumerate(X)]
        for j in range(self.layers):
            weights = softmax(p["w"][:, j])
            mixed = [sum(w * s[i] for w, s in zip(weights, states)) for i in range(len(M))]
            T = self.decoder_block(p.at(f"decoder/{j}/"), T, mixed)
        return [p["E"] @ (x * d**-0.5) for x in norms(p.at("N."), T)]


class ReZero(Vanilla):
    """Bachlechner et al. 2020: x + a · F(x), without norms."""

    use = "EncoderBlock=rezero DecoderBlock=rezero_cross Norm=norm_none"

    def encoder(self, p, X):
        for i in range(self.layers):
            q = p.at(f"Z/{i}/")
            X = plus(X, [q["a"] * y for y in attention(q.at("A/"), X, X)])
            X = plus(X, [q["b"] * y for y in self.forward(q, X)])
        return X

    def decoder(self, p, X, M):
        for i in range(self.layers):
            q = p.at(f"Z/{i}/")
            X = plus(X, [q["a"] * y for y in attention(q.at("A/"), X, X, True)])
            X = plus(X, [q["b"] * y for y in attention(q.at("D/"), X, M)])
            X = plus(X, [q["c"] * y for y in self.forward(q, X)])
        return X


class Fixup(Vanilla):
    """Zhang, Dauphin, Ma 2019: shifts before each layer and inside, a scale behind; no norms."""

    use = (
        "EncoderBlock=fixup DecoderBlock=fixup_cross Attention=attention_fixup "
        "Cross=multi_head_scaled FeedForward=ff_fixup Norm=norm_none"
    )

    def forward(self, p, X):
        p = p.at("F.")
        return [(relu(x @ p["P_1"] + p["a_1"]) + p["a_2"]) @ p["P_2"] for x in X]

    def branch(self, q, k, X, layer):
        shifted = [x + q[f"a_{k}"] for x in X]
        return plus(X, [q[f"s_{k}"] * y for y in layer(shifted)])

    def encoder(self, p, X):
        scale = (d // h) ** -0.5
        for i in range(self.layers):
            q = p.at(f"Z/{i}/")
            X = self.branch(q, 1, X, lambda N: attention(q.at("A/"), N, N, False, scale))
            X = self.branch(q, 2, X, lambda N: self.forward(q, N))
        return X

    def decoder(self, p, X, M):
        scale = (d // h) ** -0.5
        for i in range(self.layers):
            q = p.at(f"Z/{i}/")
            X = self.branch(q, 1, X, lambda N: attention(q.at("A/"), N, N, True, scale))
            X = self.branch(q, 2, X, lambda N: attention(q.at("D/"), N, M, False, scale))
            X = self.branch(q, 3, X, lambda N: self.forward(q, N))
        return X


class Admin(Vanilla):
    """Liu et al. 2020: norms behind the layers, and a scale of what they are added to."""

    use = "EncoderBlock=admin DecoderBlock=admin_cross Norm=norm_layer"

    def behind(self, p, name, omega, X, Y):
        return norms(p.at(name + "."), plus([p[omega] * x for x in X], Y))

    def encoder_block(self, p, X):
        X = self.behind(p, "N", "omega_1", X, attention(p.at("A/"), X, X))
        return self.behind(p, "Y", "omega_2", X, self.forward(p, X))

    def decoder_block(self, p, X, M):
        X = self.behind(p, "N", "omega_1", X, attention(p.at("A/"), X, X, True))
        X = self.behind(p, "G", "omega_2", X, attention(p.at("D/"), X, M))
        return self.behind(p, "Y", "omega_3", X, self.forward(p, X))


cases = dict(
    universal=Universal,
    evolved=Evolved,
    funnel=Funnel,
    weighted=Weighted,
    switch=Switch,
    moe=MixtureOfExperts,
    product_keys=ProductKeys,
    lightweight_convolution=LightweightConvolution,
    dynamic_convolution=DynamicConvolution,
    mixture_of_softmaxes=MixtureOfSoftmaxes,
    adaptive_output=AdaptiveOutput,
    adaptive_input=AdaptiveInput,
    adaptive_softmax=AdaptiveSoftmax,
    transparent=Transparent,
    rezero=ReZero,
    fixup=Fixup,
    admin=Admin,
)


# ---- One case ----
def shapes_of(tete, case, sizes):
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        command = [tete, "run", case.text, "--random", "--out", file.name]
        for use in case.use.split():
            command += ["--use", use]
        for name, size in dict(sizes, n=n, m=m).items():
            command += ["--dim", f"{name}={size}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return read(file.name)


def record(tete, name):
    case = cases[name]()
    sizes = dict(l=case.layers, h=h, d_X=d, f=f, v=v, p=m, **case.sizes)
    random = numpy.random.default_rng(7)
    parameters = {
        path: abs(random.normal(0, 1, shape)) + 0.1
        if path.endswith(("gamma", "kappa", "alpha"))
        else random.normal(0, 0.7, shape)
        for path, shape in sorted(shapes_of(tete, case, sizes).items())
        if path not in ("X", "M", "grad:Y")
    }
    X, M = random.integers(0, v, (2, n)), random.integers(0, v, (2, m))
    sources = [y[:length] for y, length in zip(M, lengths)]
    logits = numpy.array([case.logits(parameters, x, y) for x, y in zip(X, sources)])
    made = {f"parameter/{path}": x for path, x in parameters.items()}
    made |= dict(X=X, M=M, lengths=numpy.array(lengths), logits=logits)
    path = pathlib.Path(__file__).parent.parent / f"data/models/{name}.safetensors"
    said = " ".join(f"{size}={value}" for size, value in sizes.items())
    write(path, made, dict(text=case.text, use=case.use, sizes=said))
    print(f"{path.name}: {path.stat().st_size} bytes, logits up to {abs(logits).max():.3g}")


if __name__ == "__main__":
    for name in sys.argv[2:] or cases:
        record(sys.argv[1], name)
