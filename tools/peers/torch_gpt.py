"""A training step of a small GPT in PyTorch: forward, gradient, clipping, AdamW; on tokens drawn by
chance. Multi-head attention is scaled_dot_product_attention; talking heads are einsum."""
import argparse

from turns import need, refuse, serve

torch = need("torch", "PyTorch")
nn, F = torch.nn, torch.nn.functional


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.talking = a.heads, a.attention == "talking_heads"
        self.qkv = nn.Linear(a.d_model, 3 * a.d_model, bias=False)
        self.out = nn.Linear(a.d_model, a.d_model, bias=False)
        if self.talking:
            self.P_l, self.P_w = nn.Parameter(torch.eye(a.heads)), nn.Parameter(torch.eye(a.heads))
            self.register_buffer("see", torch.ones(a.context, a.context, dtype=torch.bool).tril())

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (y.view(b, n, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if self.talking:
            J = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
            L = torch.einsum("binm,ij->bjnm", J, self.P_l).masked_fill(~self.see, float("-inf"))
            y = torch.einsum("binm,ij->bjnm", torch.softmax(L, -1), self.P_w) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        d = a.d_model
        self.norms = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.attention = Attention(a)
        self.feed_forward = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.feed_forward(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens = nn.Embedding(a.vocabulary, a.d_model)
        self.positions = nn.Embedding(a.context, a.d_model)
        self.blocks = nn.ModuleList([Block(a) for _ in range(a.layers)])
        self.norm = nn.LayerNorm(a.d_model)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    p = argparse.ArgumentParser()
    for size in ("layers", "heads", "d-model", "context", "batch", "vocabulary", "threads"):
        p.add_argument("--" + size, type=int)
    p.add_argument("--attention")
    p.add_argument("--mode", choices=["check", "eager", "compile", "bf16"])
    a = p.parse_args()
    if a.attention not in ("multi_head", "talking_heads"):
        refuse(f"there is no program for '{a.attention}' (there are multi_head and talking_heads)")
    if a.mode == "check":
        return serve(lambda: None, torch)
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = GPT(a)
    loss_of = torch.compile(model) if a.mode == "compile" else model
    kinds = [[p for p in model.parameters() if (p.dim() > 1) == matrices] for matrices in (True, False)]
    optimizer = torch.optim.AdamW([{"params": kinds[0], "weight_decay": 0.1},
                                   {"params": kinds[1], "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.99))

    def call():
        tokens, targets = torch.randint(a.vocabulary, (2, a.batch, a.context))
        with torch.autocast("cpu", torch.bfloat16, enabled=a.mode == "bf16"):
            loss = loss_of(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.detach())

    serve(call, torch)


main()
