//! Options structs: each field is public to read and has a method that sets it, so that adding a
//! field breaks no caller.

/// Defines a setter for each field, which returns the options. The fields of the second list accept
/// any value that converts into the field's type.
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
