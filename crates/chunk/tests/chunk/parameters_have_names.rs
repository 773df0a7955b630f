//! Every parameter of every algorithm can be shown and set by its name.

use ibid_chunk::{NAMES, Settings, SettingsError};

#[test]
fn names_and_words_are_in_one_order_and_values_come_back() {
    for name in NAMES {
        let settings = Settings::for_average(name, 8192).unwrap();
        assert_eq!(settings.parameters().len(), settings.to_words().len(), "{name}");
        let values = settings.parameter_values();
        let pairs = values.iter().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(settings.with_parameters(pairs), Ok(settings.clone()));
        // The sizes are where their names say. Algorithms without a minimum derive it from another
        // parameter.
        let value = |of: &str| {
            let found = values.iter().find(|(name, _)| *name == of);
            found.map(|(_, value)| value.parse::<usize>().unwrap())
        };
        let size = |of: &str| value(of).or(value("size"));
        let from_window = value("window").map(|window| window + 1);
        let size_min = size("size_min")
            .or(from_window)
            .or(value("radius").map(|radius| 2 * radius + 1));
        assert_eq!(
            (size_min, size("size_average"), size("size_max")),
            (
                Some(settings.size_min()),
                Some(settings.size_average()),
                Some(settings.size_max())
            )
        );
    }
}

#[test]
fn one_changed_value_changes_one_word() {
    let settings = Settings::for_average("seqcdc", 8192).unwrap();
    let changed = settings
        .with_parameters([("equal", "strict"), ("seq_length", "6")])
        .unwrap();
    assert_eq!(changed.to_words(), [4096, 8192, 16_384, 0, 1, 6, 50, 256]);
}

#[test]
fn senseless_values_are_refused_with_the_allowed_ones() {
    let settings = Settings::for_average("seqcdc", 8192).unwrap();
    let refused = |name, value| settings.with_parameters([(name, value)]).unwrap_err();
    assert_eq!(
        refused("length", "5").to_string(),
        "parameter of seqcdc: expected one of size_min size_average size_max mode equal seq_length skip_trigger \
         skip_size, found \"length\""
    );
    assert_eq!(
        refused("mode", "upwards").to_string(),
        "mode: expected increasing or decreasing, found \"upwards\""
    );
    for value in ["five", "-1", "4294967296", ""] {
        assert!(
            matches!(refused("seq_length", value), SettingsError::BadValue { .. }),
            "{value}"
        );
    }
    assert!(matches!(refused("seq_length", "64"), SettingsError::OutOfRange { .. }));
}

/// The values of a parameter are spelled as in the algorithms' names.
#[test]
fn methods_and_hashes_are_called_as_in_the_names() {
    for name in NAMES.into_iter().filter(|name| name.contains('/')) {
        let settings = Settings::for_average(name, 4096).unwrap();
        let values = settings.parameter_values();
        assert_eq!(format!("{}/{}", values[3].1, values[4].1), name);
    }
}
