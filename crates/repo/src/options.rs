//! How options are set: their fields are public to read, and each has a method that sets it, so that
//! a new field breaks no program.

/// Makes a method for each field, which sets it and returns the options. Those of the second list
/// take all that can be turned into the field's type.
macro_rules! setters {
    ($options:ty { $($field:ident: $type:ty,)* } into { $($from:ident: $into:ty,)* }) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
            $(
                #[doc = concat!("Sets [`", stringify!($from), "`](#structfield.", stringify!($from), ").")]
                #[must_use]
                pub fn $from(mut self, $from: impl Into<$into>) -> Self {
                    self.$from = $from.into();
                    self
                }
            )*
        }
    };
}

pub(crate) use setters;
