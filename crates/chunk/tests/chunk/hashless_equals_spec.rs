//! AE, RAM, MAXP and argmin cut where their specifications say: on every short string with tiny
//! parameters, on every length of structured data, and with extreme bytes at every place.

use ibid_chunk::{
    AeSettings, ArgminSettings, ArgminWindow, Backend, Extremum, MaxpSettings, RamSettings, spec, unlimited,
};

use crate::data::{KINDS, Random, structured};

/// Settings within and outside of the limits, with sizes that the specification takes.
#[derive(Clone, Copy, Debug)]
enum Any {
    Ae(AeSettings),
    Ram(RamSettings),
    Maxp(MaxpSettings),
    Argmin(ArgminSettings),
}

impl Any {
    fn fast(&self, backend: Backend, data: &[u8]) -> usize {
        match self {
            Any::Ae(settings) => unlimited::ae(backend, settings, data),
            Any::Ram(settings) => unlimited::ram(backend, settings, data),
            Any::Maxp(settings) => unlimited::maxp(backend, settings, data),
            Any::Argmin(settings) => unlimited::argmin(backend, settings, data),
        }
    }

    fn slow(&self, data: &[u8]) -> usize {
        match self {
            Any::Ae(settings) => spec::ae(settings, data),
            Any::Ram(settings) => spec::ram(settings, data),
            Any::Maxp(settings) => spec::maxp(settings, data),
            Any::Argmin(settings) => spec::argmin(settings, data),
        }
    }

    #[track_caller]
    fn assert_equal(&self, data: &[u8]) -> usize {
        let slow = self.slow(data);
        for backend in Backend::available() {
            assert_eq!(
                self.fast(backend, data),
                slow,
                "{backend} {self:?}, {} bytes: {:?}",
                data.len(),
                &data[..data.len().min(100)]
            );
        }
        slow
    }
}

/// All algorithms with a window (or radius) of this size and this maximum.
fn with_window(window: usize, size_max: usize) -> Vec<Any> {
    let size_average = size_max;
    let mut all = vec![
        Any::Ram(RamSettings {
            window,
            size_average,
            size_max,
        }),
        Any::Maxp(MaxpSettings {
            radius: window,
            size_average,
            size_max,
        }),
    ];
    for extremum in [Extremum::Max, Extremum::Min] {
        all.push(Any::Ae(AeSettings {
            window,
            size_average,
            size_max,
            extremum,
        }));
    }
    for bytes in [ArgminWindow::Bytes4, ArgminWindow::Bytes8] {
        let size_min = (window + 1).max(bytes.bytes());
        if size_min <= size_max {
            all.push(Any::Argmin(ArgminSettings {
                size_min,
                size_average,
                size_max,
                window: bytes,
            }));
        }
    }
    all
}

fn every_string(alphabet: &[u8], longest: usize, mut check: impl FnMut(&[u8])) {
    for len in 0..=longest {
        for number in 0..alphabet.len().pow(len as u32) {
            let mut rest = number;
            let mut text = [0; 16];
            for byte in &mut text[..len] {
                *byte = alphabet[rest % alphabet.len()];
                rest /= alphabet.len();
            }
            check(&text[..len]);
        }
    }
}

#[test]
fn every_string_of_two_and_three_letters() {
    for (window, size_max) in [(1, 12), (2, 9), (3, 12), (4, 12), (5, 11), (3, 3), (1, 2), (20, 10)] {
        for settings in with_window(window, size_max) {
            every_string(&[0, 255], 12, |text| {
                settings.assert_equal(text);
            });
            every_string(&[127, 128, 129], 9, |text| {
                settings.assert_equal(text);
            });
        }
    }
}

#[test]
fn every_length_of_structured_data() {
    for kind in 0..KINDS {
        let data = structured(kind, 71 + kind as u64, 420);
        for (window, size_max) in [
            (1, 400),
            (7, 400),
            (31, 400),
            (63, 399),
            (64, 400),
            (65, 401),
            (130, 300),
        ] {
            for settings in with_window(window, size_max) {
                for len in 0..=data.len() {
                    settings.assert_equal(&data[..len]);
                }
            }
        }
    }
}

#[test]
fn every_alignment_of_structured_data() {
    let mut met = 0;
    for kind in 0..KINDS {
        let data = structured(kind, 90 + kind as u64, 1100);
        for (window, size_max) in [(40, 1000), (100, 1000), (129, 1001)] {
            for settings in with_window(window, size_max) {
                for start in 0..130 {
                    met += usize::from(settings.assert_equal(&data[start..]) < size_max);
                }
            }
        }
    }
    assert!(met > 5000, "most conditions are met before the maximum: {met}");
}

/// Vectors are loaded from any address, and the end of the data may be at any distance.
#[test]
fn every_length_at_every_alignment() {
    let variants = [(6, 192), (20, 191), (33, 150), (70, 192)].map(|(window, size_max)| with_window(window, size_max));
    for (number, settings) in variants.iter().flatten().enumerate() {
        let room = structured(number % KINDS, 7 + number as u64, 64 + 64 + 192);
        let base = room.as_ptr().addr();
        for alignment in 0..64 {
            let from = (alignment + 64 - base % 64) % 64;
            for len in 0..=192 {
                settings.assert_equal(&room[from..from + len]);
            }
        }
    }
}

/// Puts an extreme byte at every place, with a rival as large or larger at every distance. A window
/// that is one byte too long or too short fails.
#[test]
fn an_extreme_byte_and_its_rival_anywhere() {
    let plain: Vec<u8> = (0..500).map(|at| 100 + (at * 7 % 5) as u8).collect();
    let window = 100;
    for settings in with_window(window, 480) {
        for at in (0..300).step_by(3) {
            for distance in (1..200).step_by(9).chain(95..106) {
                for (byte, rival) in [(200, 200), (200, 201), (20, 20), (20, 19), (200, 199)] {
                    let mut data = plain.clone();
                    data[at] = byte;
                    data[at + distance] = rival;
                    settings.assert_equal(&data);
                }
            }
        }
    }
}

#[test]
fn any_settings_and_data() {
    let mut source = Random(17);
    for _ in 0..6000 {
        let window = 1 + source.below(300);
        let size_max = 1 + source.below(2000);
        let data = structured(source.below(KINDS), source.next(), source.below(2100));
        for settings in with_window(window, size_max) {
            settings.assert_equal(&data);
        }
    }
}

/// The promise of finality, at every prefix.
#[test]
fn cuts_before_the_end_stay_when_more_bytes_follow() {
    for kind in 0..KINDS {
        let data = structured(kind, 33 + kind as u64, 700);
        for (window, size_max) in [(9, 600), (64, 650), (200, 500)] {
            for settings in with_window(window, size_max) {
                let all = settings.slow(&data);
                for len in 0..data.len() {
                    let early = settings.slow(&data[..len]);
                    assert!(
                        early == len || early == all,
                        "{early} of {len}, {all} of all: {settings:?}"
                    );
                }
            }
        }
    }
}
