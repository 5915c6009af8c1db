#!/usr/bin/env python3
"""HuggingFace's models as oracles of nn/models: small ones, with random weights.

    tests/oracles/transformers.py [FAMILY…]        # writes tests/data/models/FAMILY.safetensors

Each file has the inputs under their names, `lengths` where the batch is padded, `parameter/NAME`
for each parameter of the text, the logits, and for some families `cotangent` and `gradient/NAME`,
the gradients of sum(logits * cotangent). The metadata has the text's name and sizes.
tests/oracles.cpp runs the texts on them. Needs torch, transformers and safetensors.
"""

import pathlib
import sys

del sys.path[0]  # where this file, too, is called transformers
import torch
import transformers
from safetensors.torch import save_file

d, h, f, l = 12, 3, 20, 2  # the width, the heads, the hidden width, the layers
v = 17  # tokens
n, room = 7, 9  # the length, and the learned positions


# ---- Layouts ----
def into_heads(W, heads):
    """[heads * d_k, d_in] of nn.Linear as [d_in, d_k, heads]."""
    return W.reshape(heads, -1, W.shape[1]).permute(2, 1, 0)


def out_of_heads(W, heads):
    """[d_Y, heads * d_v] of nn.Linear as [d_Y, d_v, heads]."""
    return W.reshape(W.shape[0], heads, -1).permute(0, 2, 1)


def by_heads(b, heads):
    """[heads * d_k] as [d_k, heads]."""
    return b.reshape(heads, -1).T


class Names:
    """Collects a text's parameters from `source`, which maps the other's names to tensors."""

    def __init__(self, source):
        self.source, self.made = source, {}

    def take(self, name, other, layout=lambda W: W):
        self.made[name] = layout(self.source[other]).contiguous()

    def norm(self, name, other):
        self.take(name + ".gamma", other + ".weight")
        if other + ".bias" in self.source:
            self.take(name + ".beta", other + ".bias")

    def attention(self, path, query, key, value, output, heads=h, groups=None):
        groups = groups or heads
        for name, bias, other, count in (
            ("P_q", "Query", query, heads),
            ("P_k", "Key", key, groups),
            ("P_v", "Value", value, groups),
        ):
            self.take(f"{path}/{name}", other + ".weight", lambda W: into_heads(W, count))
            if other + ".bias" in self.source:
                self.take(f"{path}/{bias}Bias.b", other + ".bias", lambda b: by_heads(b, count))
        self.take(f"{path}/P_o", output + ".weight", lambda W: out_of_heads(W, heads))
        if output + ".bias" in self.source:
            self.take(f"{path}/OutputBias.b", output + ".bias")

    def feed_forward(self, name, one, two, gate=None):
        for letter, other in ("1", one), ("2", two), ("g", gate):
            if other:
                self.take(f"{name}.P_{letter}", other + ".weight", lambda W: W.T)
                if other + ".bias" in self.source:
                    self.take(f"{name}.b_{letter}", other + ".bias")


# ---- Families: a model, its inputs, and where our parameters are ----
class GPT2:
    text, sizes, gradients = "gpt2", dict(l=l, h=h, f=f), True

    def model(self):
        return transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=v,
                n_embd=d,
                n_head=h,
                n_layer=l,
                n_inner=f,
                n_positions=room,
                resid_pdrop=0,
                embd_pdrop=0,
                attn_pdrop=0,
                bos_token_id=0,
                eos_token_id=0,
            )
        )

    def parameters(self, names):
        source = names.source
        for key in list(source):  # Conv1D holds its matrix transposed, and Q, K and V as one
            if any(part + ".weight" in key for part in ("c_attn", "c_proj", "c_fc")):
                source[key] = source[key].T
            if "c_attn" in key:
                for letter, part in zip("qkv", source[key].chunk(3)):
                    source[key.replace("c_attn", letter)] = part
        names.take("E", "transformer.wte.weight")
        names.take("A.P", "transformer.wpe.weight")
        for i in range(l):
            at = f"transformer.h.{i}"
            names.norm(f"Z/{i}/N", at + ".ln_1")
            names.attention(
                f"Z/{i}/A", *(f"{at}.attn.{name}" for name in ("q", "k", "v", "c_proj"))
            )
            names.norm(f"Z/{i}/C", at + ".ln_2")
            names.feed_forward(f"Z/{i}/F", at + ".mlp.c_fc", at + ".mlp.c_proj")
        names.norm("N", "transformer.ln_f")


class BERT:
    text, sizes, gradients, segments, lengths = "bert", dict(l=l, h=h, f=f), True, True, (7, 5)

    def model(self):
        return transformers.BertForMaskedLM(
            transformers.BertConfig(
                vocab_size=v,
                hidden_size=d,
                num_attention_heads=h,
                num_hidden_layers=l,
                intermediate_size=f,
                max_position_embeddings=room,
                hidden_dropout_prob=0,
                attention_probs_dropout_prob=0,
            )
        )

    def parameters(self, names):
        names.take("E", "bert.embeddings.word_embeddings.weight")
        names.take("P", "bert.embeddings.position_embeddings.weight")
        names.take("G", "bert.embeddings.token_type_embeddings.weight")
        names.norm("N", "bert.embeddings.LayerNorm")
        for i in range(l):
            at = f"bert.encoder.layer.{i}"
            names.attention(
                f"Z/{i}/A",
                *(f"{at}.attention.self.{name}" for name in ("query", "key", "value")),
                at + ".attention.output.dense",
            )
            names.norm(f"Z/{i}/N", at + ".attention.output.LayerNorm")
            names.feed_forward(f"Z/{i}/F", at + ".intermediate.dense", at + ".output.dense")
            names.norm(f"Z/{i}/Y", at + ".output.LayerNorm")
        names.take("P_e", "cls.predictions.transform.dense.weight", lambda W: W.T)
        names.take("b_e", "cls.predictions.transform.dense.bias")
        names.norm("R", "cls.predictions.transform.LayerNorm")
        names.take("b_v", "cls.predictions.bias")


class ALBERT:
    text, sizes, segments, lengths = "albert", dict(l=3, h=h, f=f), True, (7, 4)

    def model(self):
        return transformers.AlbertForMaskedLM(
            transformers.AlbertConfig(
                vocab_size=v,
                embedding_size=5,
                hidden_size=d,
                num_attention_heads=h,
                num_hidden_layers=3,
                intermediate_size=f,
                max_position_embeddings=room,
                hidden_dropout_prob=0,
                attention_probs_dropout_prob=0,
            )
        )

    def parameters(self, names):
        names.take("E", "albert.embeddings.word_embeddings.weight")
        names.take("P", "albert.embeddings.position_embeddings.weight")
        names.take("G", "albert.embeddings.token_type_embeddings.weight")
        names.norm("N", "albert.embeddings.LayerNorm")
        names.take("P_e", "albert.encoder.embedding_hidden_mapping_in.weight", lambda W: W.T)
        names.take("b_e", "albert.encoder.embedding_hidden_mapping_in.bias")
        at = "albert.encoder.albert_layer_groups.0.albert_layers.0"
        names.attention(
            "Z/A", *(f"{at}.attention.{name}" for name in ("query", "key", "value", "dense"))
        )
        names.norm("Z/N", at + ".attention.LayerNorm")
        names.feed_forward("Z/F", at + ".ffn", at + ".ffn_output")
        names.norm("Z/Y", at + ".full_layer_layer_norm")
        names.take("P_o", "predictions.dense.weight", lambda W: W.T)
        names.take("b_o", "predictions.dense.bias")
        names.norm("R", "predictions.LayerNorm")
        names.take("b_v", "predictions.bias")


class LLaMA:
    text, dtype = "llama", torch.float32
    heads, groups, width = 4, 2, 16
    sizes = dict(l=l, h=heads, g=groups, f=f)

    def model(self):
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=v,
                hidden_size=self.width,
                intermediate_size=f,
                num_hidden_layers=l,
                num_attention_heads=self.heads,
                num_key_value_heads=self.groups,
                max_position_embeddings=room,
                rms_norm_eps=1e-6,
                attention_dropout=0.0,
            )
        )

    def parameters(self, names):
        names.take("E", "model.embed_tokens.weight")
        names.take("U", "lm_head.weight")
        for i in range(l):
            at = f"model.layers.{i}"
            names.norm(f"Z/{i}/N", at + ".input_layernorm")
            projections = (f"{at}.self_attn.{letter}_proj" for letter in "qkvo")
            names.attention(f"Z/{i}/A", *projections, heads=self.heads, groups=self.groups)
            names.norm(f"Z/{i}/C", at + ".post_attention_layernorm")
            names.feed_forward(
                f"Z/{i}/F", at + ".mlp.up_proj", at + ".mlp.down_proj", at + ".mlp.gate_proj"
            )
        names.norm("N", "model.norm")


class NeoX:
    text, dtype = "neox", torch.float32
    heads, width = 2, 16  # a quarter of a head's 8 places turns
    sizes = dict(l=l, h=heads, f=f)

    def model(self):
        return transformers.GPTNeoXForCausalLM(
            transformers.GPTNeoXConfig(
                vocab_size=v,
                hidden_size=self.width,
                intermediate_size=f,
                num_hidden_layers=l,
                num_attention_heads=self.heads,
                max_position_embeddings=room,
                rotary_pct=0.25,
            )
        )

    def parameters(self, names):
        source = names.source
        for key in list(source):  # each head has its rows of Q, K and V
            if "query_key_value" in key:
                parts = source[key].reshape(self.heads, 3, -1, *source[key].shape[1:])
                for i, letter in enumerate("qkv"):
                    source[key.replace("query_key_value", letter)] = parts[:, i].flatten(0, 1)
        names.take("E", next(key for key in source if key.endswith("embed_in.weight")))
        names.take(
            "U", next(key for key in source if key.split(".")[0] in ("lm_head", "embed_out"))
        )
        for i in range(l):
            at = f"gpt_neox.layers.{i}"
            names.norm(f"Z/{i}/N", at + ".input_layernorm")
            projections = (f"{at}.attention.{name}" for name in ("q", "k", "v", "dense"))
            names.attention(f"Z/{i}/A", *projections, heads=self.heads)
            names.norm(f"Z/{i}/C", at + ".post_attention_layernorm")
            names.feed_forward(f"Z/{i}/F", at + ".mlp.dense_h_to_4h", at + ".mlp.dense_4h_to_h")
        names.norm("N", "gpt_neox.final_layer_norm")


class T5:
    text, gradients, dtype = "t5", True, torch.float32
    sizes = dict(l=l, h=h, f=f)
    source_length, lengths, length = (
        21,
        (21, 13),
        20,
    )  # long enough for buckets of several distances
    width, form = 4, "relu"

    def model(self):
        model = transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=v,
                d_model=d,
                d_kv=self.width,
                d_ff=f,
                num_layers=l,
                num_decoder_layers=l,
                num_heads=h,
                feed_forward_proj=self.form,
                dropout_rate=0.0,
                tie_word_embeddings=self.form == "relu",
            )
        )
        if self.form != "relu":  # transformers ties what the checkpoints have apart
            model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
        return model

    def parameters(self, names):
        names.take("E", "shared.weight")
        if self.form != "relu":
            names.take("U", "lm_head.weight")
        for stack in "encoder", "decoder":
            names.take(
                f"{stack}/A/T5Bias.B",
                f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                lambda B: B.T,
            )
            for i in range(l):
                at, path = f"{stack}.block.{i}.layer", f"{stack}/{i}"
                norms = ("N", "C") if stack == "encoder" else ("N", "C", "G")
                for j, norm in enumerate(norms):
                    names.norm(f"{path}/{norm}", f"{at}.{j}.layer_norm")
                names.attention(f"{path}/A", *(f"{at}.0.SelfAttention.{name}" for name in "qkvo"))
                if stack == "decoder":
                    names.attention(
                        f"{path}/D", *(f"{at}.1.EncDecAttention.{name}" for name in "qkvo")
                    )
                layer = f"{at}.{len(norms) - 1}.DenseReluDense"
                if self.form == "relu":
                    names.feed_forward(f"{path}/F", layer + ".wi", layer + ".wo")
                else:
                    names.feed_forward(f"{path}/F", layer + ".wi_1", layer + ".wo", layer + ".wi_0")
        names.norm("R", "encoder.final_layer_norm")
        names.norm("N", "decoder.final_layer_norm")


class T5v1_1(T5):
    text, gradients, width, form = "t5_1_1", False, 5, "gated-gelu"
    sizes = dict(l=l, h=h, f=f, d_k=5, d_v=5)
    source_length, lengths, length = 9, (9, 6), 7


class Marian:
    text, dtype = "transformer", torch.float32
    f = 8
    sizes, source_length, lengths = dict(l=l, h=h, f=f), 6, (4, 6)

    def model(self):
        return transformers.MarianMTModel(
            transformers.MarianConfig(
                vocab_size=v,
                d_model=d,
                encoder_layers=l,
                decoder_layers=l,
                encoder_attention_heads=h,
                decoder_attention_heads=h,
                encoder_ffn_dim=self.f,
                decoder_ffn_dim=self.f,
                max_position_embeddings=room,
                activation_function="relu",
                scale_embedding=True,
                dropout=0.0,
                pad_token_id=0,
                eos_token_id=1,
                decoder_start_token_id=0,
                forced_eos_token_id=1,
            )
        )

    def parameters(self, names):
        names.take("E", "model.shared.weight")
        for stack in "encoder", "decoder":
            for i in range(l):
                at, path = f"model.{stack}.layers.{i}", f"{stack}/{i}"
                cross = stack == "decoder"
                projections = ("q_proj", "k_proj", "v_proj", "out_proj")
                names.attention(f"{path}/A", *(f"{at}.self_attn.{name}" for name in projections))
                names.norm(f"{path}/N", at + ".self_attn_layer_norm")
                if cross:
                    names.attention(
                        f"{path}/D", *(f"{at}.encoder_attn.{name}" for name in projections)
                    )
                    names.norm(f"{path}/G", at + ".encoder_attn_layer_norm")
                names.feed_forward(f"{path}/F", at + ".fc1", at + ".fc2")
                names.norm(f"{path}/Y", at + ".final_layer_norm")


families = [GPT2, BERT, ALBERT, LLaMA, NeoX, T5, T5v1_1, Marian]


# ---- One case ----
def randomize(model, dtype):
    """Weights so large that no softmax is flat, and norms and biases that are not 1 and 0."""
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:  # Marian's sinusoids
            continue
        is_norm = "norm" in name.lower() or ".ln_" in name
        with torch.no_grad():
            parameter.normal_(0, 0.3)
            if is_norm and name.endswith("weight"):
                parameter += 1
    model.to(dtype).eval()


def inputs_of(family):
    """The text's inputs, and the model's."""
    length = getattr(family, "length", n)
    made = dict(X=torch.randint(v, (2, length)))
    lengths = getattr(family, "lengths", None)
    padded = length
    given = dict(input_ids=made["X"])
    if getattr(family, "segments", False):
        made["S"] = given["token_type_ids"] = torch.randint(2, (2, length))
    if hasattr(family, "source_length"):
        padded = family.source_length
        made["M"] = torch.randint(v, (2, padded))
        given = dict(input_ids=made["M"], decoder_input_ids=made["X"])
    if lengths:
        made["lengths"] = torch.tensor(lengths)
        given["attention_mask"] = (torch.arange(padded) < made["lengths"][:, None]).long()
    return made, given


def tensors_of(model):
    return dict(model.named_parameters(remove_duplicate=False))


def record(family):
    dtype = getattr(family, "dtype", torch.float64)
    model = family.model()
    model.set_attn_implementation("eager")
    randomize(model, dtype)
    made, given = inputs_of(family)
    logits = model(**given).logits
    made["logits"] = logits.detach()
    names = Names({name: x.detach() for name, x in tensors_of(model).items()})
    family.parameters(names)
    made |= {f"parameter/{name}": x for name, x in names.made.items()}
    if getattr(family, "gradients", False):
        made["cotangent"] = torch.randn_like(logits)
        (logits * made["cotangent"]).sum().backward()
        names = Names({name: x.grad for name, x in tensors_of(model).items() if x.grad is not None})
        family.parameters(names)
        made |= {f"gradient/{name}": x for name, x in names.made.items()}
    sizes = " ".join(f"{name}={size}" for name, size in family.sizes.items())
    made = {name: x.clone().contiguous() for name, x in made.items()}
    path = pathlib.Path(__file__).parent.parent / f"data/models/{family.text}.safetensors"
    save_file(
        made, path, dict(text=family.text, sizes=sizes, transformers=transformers.__version__)
    )
    print(f"{path.name}: {path.stat().st_size} bytes, logits up to {logits.abs().max():.3g}")


if __name__ == "__main__":
    for family in families:
        if not sys.argv[1:] or family.text in sys.argv[1:]:
            record(family())
