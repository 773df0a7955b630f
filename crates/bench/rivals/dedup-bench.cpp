// How fast are DedupBench's chunkers on bytes in memory?
//
//     dedup-bench FILE|random KIB ROUNDS CONFIG...
//
// For every configuration, the first KIB of the file (or random bytes, the same as in
// crates/chunk/examples/speed.rs) are cut from start to end, over and over for at least 64 MiB, in
// ROUNDS rounds. Prints the best round in GB/s and the average size. docs/benchmarks.md says how to
// build it; it uses DedupBench's headers and has no code of theirs.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "ae_chunking.hpp"
#include "chunking_common.hpp"
#include "config.hpp"
#include "crc_chunking.hpp"
#include "fastcdc.hpp"
#include "gear_chunking.hpp"
#include "maxp_chunking.hpp"
#include "rabins_chunking.hpp"
#include "ram_chunking.hpp"
#include "seq_chunking.hpp"
#include "tttd_chunking.hpp"

// Their program defines it; only chunking is measured.
bool disable_hashing = true;

static std::unique_ptr<Chunking_Technique> chunker(const Config& config) {
    switch (config.get_chunking_tech()) {
    case ChunkingTech::AE: return std::make_unique<AE_Chunking>(config);
    case ChunkingTech::CRC: return std::make_unique<SS_CRC_Chunking>(config);
    case ChunkingTech::FASTCDC: return std::make_unique<FastCDC>(config);
    case ChunkingTech::GEAR: return std::make_unique<Gear_Chunking>(config);
    case ChunkingTech::MAXP: return std::make_unique<MAXP_Chunking>(config);
    case ChunkingTech::RABINS: return std::make_unique<Rabins_Chunking>(config);
    case ChunkingTech::RAM: return std::make_unique<RAM_Chunking>(config);
    case ChunkingTech::SEQ: return std::make_unique<Seq_Chunking>(config);
    case ChunkingTech::TTTD: return std::make_unique<TTTD_Chunking>(config);
    default: std::fprintf(stderr, "no such chunker here\n"); std::exit(1);
    }
}

// The splitmix64 sequence, least significant byte first.
static void fill(char* data, size_t bytes) {
    uint64_t state = 1;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        std::memcpy(data + at, &z, 8);
    }
}

int main(int count, char** arguments) {
    if (count < 5) {
        std::fprintf(stderr, "expected FILE|random KIB ROUNDS CONFIG...\n");
        return 1;
    }
    size_t bytes = std::strtoull(arguments[2], nullptr, 10) << 10;
    int rounds = std::atoi(arguments[3]);
    // Their vector code reads past the end.
    std::vector<char> room(bytes + (1 << 20));
    if (std::strcmp(arguments[1], "random") == 0) {
        fill(room.data(), bytes);
    } else {
        std::ifstream file(arguments[1], std::ios::binary);
        file.read(room.data(), bytes);
        bytes = file.gcount();
    }
    for (int at = 4; at < count; at++) {
        std::unique_ptr<Chunking_Technique> method = chunker(Config{std::string(arguments[at])});
        int passes = ((64u << 20) + bytes - 1) / bytes;
        double best = 1e9;
        size_t chunks = 0;
        for (int round = 0; round < rounds; round++) {
            auto start = std::chrono::steady_clock::now();
            for (int pass = 0; pass < passes; pass++) {
                chunks = 0;
                for (size_t cut = 0; cut < bytes; chunks++) {
                    size_t length = method->find_cutpoint(room.data() + cut, bytes - cut);
                    cut += length == 0 ? 1 : length;
                }
            }
            std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
            best = std::min(best, seconds.count() / passes);
        }
        std::printf("%-60s %8.2f GB/s %8.2f KiB\n", arguments[at], bytes / 1e9 / best, bytes / 1024.0 / chunks);
    }
}
