//! Generated data that is the same on every machine.

use std::fs;
use std::path::Path;

/// The splitmix64 sequence.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Returns one of 4096 words; low ranks are drawn more often, as in a language.
    fn word(&mut self) -> String {
        let rank = self.below(64) * self.below(64);
        let mut letters = Random(rank as u64);
        (0..2 + rank % 9)
            .map(|_| char::from(b'a' + letters.below(26) as u8))
            .collect()
    }

    /// Returns about `bytes` bytes of words in lines.
    fn text(&mut self, bytes: usize) -> Vec<u8> {
        let mut text = String::new();
        while text.len() < bytes {
            text += &self.word();
            text.push(if self.below(12) == 0 { '\n' } else { ' ' });
        }
        text.into_bytes()
    }

    /// Returns bytes that cannot be compressed.
    fn noise(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.next() as u8).collect()
    }

    /// Overwrites, inserts and deletes up to 60 bytes at each of several places.
    fn edit(&mut self, data: &mut Vec<u8>, places: usize) {
        for _ in 0..places {
            let at = self.below(data.len());
            let end = (at + self.below(60)).min(data.len());
            let new = match self.below(3) {
                0 => self.text(end - at),
                1 => self.text(60),
                _ => Vec::new(),
            };
            data.splice(at..end, new);
        }
    }
}

/// Writes 244 files of 4.5 MB: texts, tables, noise, copies, and copies with edits.
pub(crate) fn write_files(folder: &Path) -> std::io::Result<()> {
    let mut random = Random(1);
    for folder_number in 0..12 {
        let folder = folder.join(format!("folder-{folder_number:02}"));
        fs::create_dir_all(&folder)?;
        for number in 0..16 {
            let bytes = 1000 + random.below(20_000);
            let mut text = random.text(bytes);
            fs::write(folder.join(format!("text-{number:02}.txt")), &text)?;
            if number % 4 == 0 {
                fs::write(folder.join(format!("copy-{number:02}.txt")), &text)?;
                random.edit(&mut text, 5);
                fs::write(folder.join(format!("edited-{number:02}.txt")), &text)?;
            }
        }
    }
    for number in 0..4 {
        fs::write(folder.join(format!("table-{number}.csv")), table(&mut random, 6000))?;
        fs::write(folder.join(format!("noise-{number}.bin")), random.noise(200_000))?;
    }
    Ok(())
}

fn table(random: &mut Random, rows: usize) -> Vec<u8> {
    let row = |row| {
        format!(
            "{row},{},2026-01-{:02},{:08x}\n",
            random.word(),
            1 + row % 28,
            random.next() as u32
        )
    };
    (0..rows).map(row).collect::<String>().into_bytes()
}

/// Returns eight versions of one file of 2.5 MB, each with 40 edits of the one before it.
pub(crate) fn versions() -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random(2);
    let mut data = random.text(1_500_000);
    data.extend(table(&mut random, 40_000));
    (0..8).map(move |_| {
        random.edit(&mut data, 40);
        data.clone()
    })
}

/// Returns ten rounds of changes to 300 documents: keys with new bodies, 2.4 MB in all.
pub(crate) fn records() -> impl Iterator<Item = Vec<(String, Vec<u8>)>> {
    let mut random = Random(3);
    let mut bodies: Vec<Vec<u8>> = (0..300)
        .map(|_| {
            let bytes = 500 + random.below(3000);
            random.text(bytes)
        })
        .collect();
    (0..10).map(move |round| {
        let mut changed = Vec::new();
        for (number, body) in bodies.iter_mut().enumerate() {
            if round == 0 || random.below(3) == 0 {
                random.edit(body, 3);
                changed.push((format!("document/{number:03}"), body.clone()));
            }
        }
        changed
    })
}
