// Standard BLAKE3 (hash mode, 32 bytes) of many regions of device memory at once. github.com/BLAKE3-team/BLAKE3-specs, sections 2.1 to 2.5.
//
// `leaves`: one thread hashes CHUNKS adjacent 1 KiB chunks of one region and merges them, so a warp never diverges inside a compression.
// `merge`:  one block merges FAN adjacent nodes of one region in shared memory. Pairing neighbours level by level, an odd last node going up as
//           it is, gives BLAKE3's left-full tree. It is launched until every region has one node: its digest.
//
// The limit is the integer pipe, not memory: one compression is 56 G of 12 instructions, of which the adder pipe would take 10 and the
// multiplier 2. `one` is 1 at run time, which the compiler cannot know: `b * one + a` runs on the multiplier, and both pipes are even.

typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef CHUNKS
#define CHUNKS 4
#endif
#define LEVELS (CHUNKS == 8 ? 3 : CHUNKS == 4 ? 2 : CHUNKS == 2 ? 1 : 0)
#define THREADS 128
#define BLOCKS 5  // blocks of `leaves` on a multiprocessor: 96 registers a thread; more blocks or fewer were slower on an H200
#define FAN 256

#define CHUNK_START 1u
#define CHUNK_END 2u
#define PARENT 4u
#define ROOT 8u

#define ROTR(x, n) __funnelshift_r(x, x, n)
#define MAD(a, b) ((b) * one + (a))
#define ADD3(a, b, x) MAD(MAD(a, x), b)

#define G(a, b, c, d, x, y) \
    a = ADD3(a, b, x); d = ROTR(d ^ a, 16); c = MAD(c, d); b = ROTR(b ^ c, 12); \
    a = ADD3(a, b, y); d = ROTR(d ^ a, 8);  c = MAD(c, d); b = ROTR(b ^ c, 7);

#define ROUND(i0, i1, i2, i3, i4, i5, i6, i7, i8, i9, i10, i11, i12, i13, i14, i15) \
    G(s0, s4, s8, s12, m[i0], m[i1]) G(s1, s5, s9, s13, m[i2], m[i3]) G(s2, s6, s10, s14, m[i4], m[i5]) G(s3, s7, s11, s15, m[i6], m[i7]) \
    G(s0, s5, s10, s15, m[i8], m[i9]) G(s1, s6, s11, s12, m[i10], m[i11]) G(s2, s7, s8, s13, m[i12], m[i13]) G(s3, s4, s9, s14, m[i14], m[i15])

__constant__ u32 IV[8] = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au, 0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u};

__device__ __forceinline__ void start(u32 cv[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) cv[k] = IV[k];
}

__device__ __forceinline__ void compress(u32 cv[8], const u32 m[16], u64 counter, u32 length, u32 flags, u32 one) {
    u32 s0 = cv[0], s1 = cv[1], s2 = cv[2], s3 = cv[3], s4 = cv[4], s5 = cv[5], s6 = cv[6], s7 = cv[7];
    u32 s8 = 0x6A09E667u, s9 = 0xBB67AE85u, s10 = 0x3C6EF372u, s11 = 0xA54FF53Au;
    u32 s12 = (u32)counter, s13 = (u32)(counter >> 32), s14 = length, s15 = flags;
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    ROUND(2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
    ROUND(3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1)
    ROUND(10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6)
    ROUND(12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4)
    ROUND(9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7)
    ROUND(11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13)
    cv[0] = s0 ^ s8; cv[1] = s1 ^ s9; cv[2] = s2 ^ s10; cv[3] = s3 ^ s11;
    cv[4] = s4 ^ s12; cv[5] = s5 ^ s13; cv[6] = s6 ^ s14; cv[7] = s7 ^ s15;
}

// A whole chunk on a 16-byte boundary: the common case, with the next block's loads in flight during a compression.
__device__ __forceinline__ void chunk_aligned(u32 cv[8], const uint4* p, u64 counter, u32 root, u32 one) {
    uint4 a = p[0], b = p[1], c = p[2], d = p[3];
#pragma unroll 1
    for (int block = 0; block < 16; block++) {
        u32 m[16] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w, d.x, d.y, d.z, d.w};
        if (block < 15) {
            const uint4* q = p + (block + 1) * 4;
            a = q[0]; b = q[1]; c = q[2]; d = q[3];
        }
        u32 flags = (block == 0 ? CHUNK_START : 0u) | (block == 15 ? CHUNK_END | root : 0u);
        compress(cv, m, counter, 64, flags, one);
    }
}

// Any start and any length from 0 to 1,024. Reads only words that hold at least one byte of the chunk, so nothing outside its pages.
__device__ __noinline__ void chunk_any(u32 cv[8], const unsigned char* p, u32 bytes, u64 counter, u32 root, u32 one) {
    u32 blocks = bytes == 0 ? 1 : (bytes + 63) / 64;
    u32 shift = ((u32)(u64)p & 3u) * 8u;
#pragma unroll 1
    for (u32 block = 0; block < blocks; block++) {
        u32 left = bytes - block * 64u, length = left < 64u ? left : 64u;
        const u32* words = (const u32*)((u64)(p + block * 64u) & ~3ull);
        u32 span = length == 0 ? 0u : (length + shift / 8u + 3u) / 4u;  // words that hold a byte of this block
        u32 m[16], low = span > 0 ? words[0] : 0u;
#pragma unroll
        for (u32 k = 0; k < 16; k++) {
            u32 high = k + 1 < span ? words[k + 1] : 0u;
            u32 word = __funnelshift_r(low, high, shift);
            u32 valid = length > 4 * k ? length - 4 * k : 0u;
            m[k] = valid >= 4 ? word : valid == 0 ? 0u : word & ((1u << (8 * valid)) - 1u);
            low = high;
        }
        u32 flags = (block == 0 ? CHUNK_START : 0u) | (block + 1 == blocks ? CHUNK_END | root : 0u);
        compress(cv, m, counter, length, flags, one);
    }
}

__device__ __forceinline__ void parent(u32 out[8], const u32 left[8], const u32 right[8], u32 root, u32 one) {
    u32 m[16];
#pragma unroll
    for (int k = 0; k < 8; k++) { m[k] = left[k]; m[k + 8] = right[k]; }
    start(out);
    compress(out, m, 0, 64, PARENT | root, one);
}

// The region that owns item i: the last one whose first item is not after i (every region has at least one item).
__device__ __forceinline__ u32 owner(const u64* first, u32 regions, u64 i) {
    u32 low = 0, high = regions;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (first[middle] <= i) low = middle; else high = middle;
    }
    return low;
}

__device__ __forceinline__ void store(u32* to, const u32 cv[8]) {
    ((uint4*)to)[0] = make_uint4(cv[0], cv[1], cv[2], cv[3]);
    ((uint4*)to)[1] = make_uint4(cv[4], cv[5], cv[6], cv[7]);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
leaves(const u64* addresses, const u64* lengths, const u64* first, u32 regions, u64 nodes, u32* out, u32 one) {
    u64 i = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= nodes) return;
    u32 region = owner(first, regions, i);
    u64 length = lengths[region], node = i - first[region], counter = node * CHUNKS;
    const unsigned char* p = (const unsigned char*)addresses[region] + counter * 1024;
    u64 left = length - counter * 1024;
    bool only = length <= CHUNKS * 1024;
    bool aligned = ((u64)p & 15ull) == 0;
    u32 count = left > (CHUNKS - 1) * 1024 ? CHUNKS : left == 0 ? 1u : (u32)((left + 1023) / 1024);
    u32 stack[LEVELS + 1][8], cv[8];  // stack[l]: a finished subtree of 2^l chunks that waits for its right neighbour
#pragma unroll 1
    for (u32 k = 0; k < count; k++) {
        u64 rest = left - (u64)k * 1024;
        u32 root = length <= 1024 ? ROOT : 0u;
        start(cv);
        if (rest >= 1024 && aligned) chunk_aligned(cv, (const uint4*)(p + k * 1024), counter + k, root, one);
        else chunk_any(cv, p + k * 1024, rest < 1024 ? (u32)rest : 1024u, counter + k, root, one);
        bool merging = true;
#pragma unroll
        for (int level = 0; level <= LEVELS; level++) {
            if (merging && (k >> level & 1)) {
                u32 merged[8];
                parent(merged, stack[level], cv, only && count == 2u << level ? ROOT : 0u, one);
#pragma unroll
                for (int w = 0; w < 8; w++) cv[w] = merged[w];
            } else if (merging) {
#pragma unroll
                for (int w = 0; w < 8; w++) stack[level][w] = cv[w];
                merging = false;
            }
        }
    }
    if (count & (count - 1)) {  // a region's last group that is no whole subtree: the waiting ones merge from the right
        bool found = false;
#pragma unroll
        for (int level = 0; level < LEVELS; level++) {
            if (!(count >> level & 1)) continue;
            if (found) {
                u32 merged[8];
                parent(merged, stack[level], cv, only && (count >> level) == 1 ? ROOT : 0u, one);
#pragma unroll
                for (int w = 0; w < 8; w++) cv[w] = merged[w];
            } else {
#pragma unroll
                for (int w = 0; w < 8; w++) cv[w] = stack[level][w];
                found = true;
            }
        }
    }
    store(out + i * 8, cv);
}

extern "C" __global__ void __launch_bounds__(THREADS)
merge(const u64* first_in, const u64* first_out, u32 regions, const u32* in, u32* out, u32 one) {
    __shared__ u32 nodes[8][FAN];
    u64 i = blockIdx.x;
    u32 region = owner(first_out, regions, i);
    u64 begin = (i - first_out[region]) * FAN, all = first_in[region + 1] - first_in[region];
    u32 count = all - begin < FAN ? (u32)(all - begin) : FAN;
    bool last = all <= FAN;
    const u32* from = in + (first_in[region] + begin) * 8;
    for (u32 k = threadIdx.x; k < count * 8; k += THREADS) nodes[k & 7][k >> 3] = from[k];
    __syncthreads();
    while (count > 1) {
        u32 pairs = count / 2, root = last && count == 2 ? ROOT : 0u;
        u32 cv[8], m[16];
        bool mine = threadIdx.x < pairs, odd = threadIdx.x == pairs && (count & 1);
        if (mine) {
#pragma unroll
            for (int w = 0; w < 8; w++) { m[w] = nodes[w][2 * threadIdx.x]; m[w + 8] = nodes[w][2 * threadIdx.x + 1]; }
            start(cv);
            compress(cv, m, 0, 64, PARENT | root, one);
        } else if (odd) {
#pragma unroll
            for (int w = 0; w < 8; w++) cv[w] = nodes[w][count - 1];
        }
        __syncthreads();
        if (mine || odd) {
#pragma unroll
            for (int w = 0; w < 8; w++) nodes[w][threadIdx.x] = cv[w];
        }
        __syncthreads();
        count = pairs + (count & 1);
    }
    if (threadIdx.x < 8) out[i * 8 + threadIdx.x] = nodes[threadIdx.x][0];
}
