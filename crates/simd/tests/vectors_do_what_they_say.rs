//! Compares every operation on every backend with its description in plain code.

use ibid_simd::{BLOCK, Backend, Kernel, Vector};

/// The splitmix64 sequence.
fn random(seed: u64, bytes: &mut [u8]) {
    let mut state = seed;
    for chunk in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
    }
}

/// Compares all operations, on two blocks of bytes at some alignment.
struct Compare<'a> {
    name: &'static str,
    a: &'a [u8],
    b: &'a [u8],
}

impl Kernel for Compare<'_> {
    type Output = usize;

    fn run_scalar(self) -> usize {
        BLOCK
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> usize {
        let Compare { name, a, b } = self;
        let registers = [a, b].map(|bytes| vector.load(bytes, 0));
        let [first, second] = registers;
        let bytes = |register| {
            let mut bytes = [0; BLOCK];
            vector.store(register, &mut bytes, 0);
            bytes[..V::LANES].to_vec()
        };
        let each = |what: fn(u8, u8) -> u8| (0..V::LANES).map(|at| what(a[at], b[at])).collect::<Vec<_>>();
        let mask = |what: fn(&u8, &u8) -> bool, len: usize| {
            (0..len).fold(0u64, |mask, at| mask | u64::from(what(&a[at], &b[at])) << at)
        };
        let numbers = |bytes: &[u8]| {
            let (numbers, _) = bytes.as_chunks::<4>();
            numbers
                .iter()
                .map(|number| u32::from_le_bytes(*number))
                .collect::<Vec<_>>()
        };
        let [numbers_a, numbers_b] = [a, b].map(|bytes| numbers(&bytes[..V::LANES]));
        let pairs = || numbers_a.iter().zip(&numbers_b);
        // The 16 bytes that a place belongs to, and its place in them.
        let sixteens = |what: fn(&[u8], &[u8], usize) -> u8| {
            let part = |bytes: &[u8], at: usize| bytes[at / 16 * 16..][..16].to_vec();
            (0..V::LANES)
                .map(|at| what(&part(a, at), &part(b, at), at % 16))
                .collect::<Vec<_>>()
        };

        assert_eq!(bytes(first), a[..V::LANES], "{name}");
        assert_eq!(bytes(vector.splat(a[0])), vec![a[0]; V::LANES], "{name}");
        assert_eq!(bytes(vector.max(first, second)), each(u8::max), "{name}");
        assert_eq!(bytes(vector.min(first, second)), each(u8::min), "{name}");
        assert_eq!(bytes(vector.xor(first, second)), each(|a, b| a ^ b), "{name}");
        assert_eq!(bytes(vector.and(first, second)), each(|a, b| a & b), "{name}");
        assert_eq!(bytes(vector.upper_nibbles(first)), each(|a, _| a >> 4), "{name}");
        assert_eq!(vector.at_least(first, second), mask(u8::ge, V::LANES), "{name}");
        assert_eq!(vector.below(first, second), mask(u8::lt, V::LANES), "{name}");
        assert_eq!(vector.equal(first, second), mask(u8::eq, V::LANES), "{name}");
        assert_eq!(vector.block_below(a, 0, b, 0), mask(u8::lt, BLOCK), "{name}");
        assert_eq!(
            vector.largest(first),
            a[..V::LANES].iter().copied().max().unwrap(),
            "{name}"
        );

        let sum = vector.multiply_add_u32(first, second, vector.splat_u32(0x0102_0304));
        let expected = pairs()
            .map(|(a, b)| a.wrapping_mul(*b).wrapping_add(0x0102_0304))
            .collect::<Vec<_>>();
        assert_eq!(numbers(&bytes(sum)), expected, "{name}");
        let expected = pairs().map(|(a, b)| *a.min(b)).collect::<Vec<_>>();
        assert_eq!(numbers(&bytes(vector.min_u32(first, second))), expected, "{name}");
        assert_eq!(Some(vector.least_u32(first)), numbers_a.iter().copied().min(), "{name}");

        let lower = vector.and(second, vector.splat(0x0f));
        let looked_up = sixteens(|a, b, at| a[usize::from(b[at] & 0x0f)]);
        assert_eq!(bytes(vector.lookup(first, lower)), looked_up, "{name}");
        let zipped = sixteens(|a, b, at| [a, b][at % 2][at / 2]);
        assert_eq!(bytes(vector.zip_low(first, second)), zipped, "{name}");
        let zipped = sixteens(|a, b, at| [a, b][at % 2][8 + at / 2]);
        assert_eq!(bytes(vector.zip_high(first, second)), zipped, "{name}");
        let sixteen = a[..16].try_into().unwrap();
        assert_eq!(bytes(vector.splat_16(sixteen)), a[..16].repeat(V::LANES / 16), "{name}");
        let strided: Vec<u8> = (0..V::LANES).map(|at| a[1 + at / 16 * 5 + at % 16]).collect();
        assert_eq!(bytes(vector.load_strided(a, 1, 5)), strided, "{name}");

        let longs = |bytes: &[u8]| {
            let (longs, _) = bytes.as_chunks::<8>();
            longs.iter().map(|long| u64::from_le_bytes(*long)).collect::<Vec<_>>()
        };
        let [longs_a, longs_b] = [a, b].map(|bytes| longs(&bytes[..V::LANES]));
        let strided: Vec<u8> = (0..V::LANES).map(|at| a[1 + at / 8 * 3 + at % 8]).collect();
        assert_eq!(bytes(vector.load_strided_u64(a, 1, 3)), strided, "{name}");
        assert_eq!(
            bytes(vector.splat_u64(longs_b[0])),
            b[..8].repeat(V::LANES / 8),
            "{name}"
        );
        let expected: Vec<u64> = longs_a.iter().zip(&longs_b).map(|(a, b)| a.wrapping_add(*b)).collect();
        assert_eq!(longs(&bytes(vector.add_u64(first, second))), expected, "{name}");
        let table: [u64; 256] = core::array::from_fn(|at| longs_b[0].wrapping_mul(2 * at as u64 + 1));
        for place in 0..8 {
            let expected: Vec<u64> = (0..V::LANES / 8)
                .map(|at| table[usize::from(a[8 * at + place])])
                .collect();
            assert_eq!(
                longs(&bytes(vector.gather_u64(&table, first, place))),
                expected,
                "{name}"
            );
            // One bit of the byte at `place`: set in some numbers and clear in others.
            let mask = 1 << (8 * place + 3);
            let lacking = longs_a
                .iter()
                .enumerate()
                .fold(0, |lacking, (at, long)| lacking | u64::from(long & mask == 0) << at);
            assert_eq!(vector.disjoint_u64(first, vector.splat_u64(mask)), lacking, "{name}");
        }

        let [word, bits] = [a, b].map(|bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap()));
        assert_eq!(vector.count_ones(word), word.count_ones(), "{name}");
        let extracted = vector.extract_bits(bits, word);
        let places = || (0..64).filter(|at| word >> at & 1 == 1);
        let expected = places()
            .enumerate()
            .fold(0, |sum, (to, from)| sum | (bits >> from & 1) << to);
        assert_eq!(extracted, expected, "{name}");
        assert_eq!(vector.deposit_bits(extracted, word), bits & word, "{name}");
        for (n, place) in places().enumerate() {
            assert_eq!(vector.deposit_bits(1 << n, word), 1 << place, "{name}");
        }
        V::LANES
    }
}

#[test]
fn operations_agree_with_their_descriptions() {
    for backend in Backend::available() {
        for seed in 0..200 {
            let mut room = [0; 4 * BLOCK];
            random(seed, &mut room);
            if seed % 2 == 1 {
                // Mixes in equal bytes, and 0, 127, 128 and 255.
                for byte in &mut room {
                    *byte = [0, 127, 128, 255][usize::from(*byte % 4)];
                }
            }
            let (a, b) = room.split_at(2 * BLOCK);
            let lanes = backend.run(Compare {
                name: backend.name(),
                a: &a[seed as usize % BLOCK..],
                b: &b[seed as usize / 3 % BLOCK..],
            });
            assert!([16, 32, 64].contains(&lanes));
        }
    }
}

#[test]
fn hints_point_anywhere_and_change_nothing() {
    let mut data = [0; 2 * BLOCK];
    random(3, &mut data);
    let before = data;
    for at in [0, 63, data.len(), 1 << 40, usize::MAX] {
        ibid_simd::prefetch(&data, at);
        ibid_simd::prefetch_far(&data, at);
    }
    assert_eq!(data, before);
}
