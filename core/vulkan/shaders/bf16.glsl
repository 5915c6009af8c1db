// The 16 bits of number i of bf16 numbers that are read as words: `word` is that which has them.
uint bits_of_bf16(uint word, uint i) { return word >> i % 2 * 16 & 0xFFFFu; }
