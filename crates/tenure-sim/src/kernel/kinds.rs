//! Kinds of things that have a name for people and are described in a line.

/// What is the same for each enum of kinds: all of them, their names, and what they are. A kind that is not in the table does not
/// compile.
macro_rules! kinds {
    ($Kinds:ident, $($kind:ident $name:literal: $about:literal,)*) => {
        impl $Kinds {
            /// Every kind.
            pub const ALL: &'static [$Kinds] = &[$($Kinds::$kind,)*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($Kinds::$kind => $name,)* }
            }

            /// The kind of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<$Kinds> {
                $Kinds::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// What it is.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $($Kinds::$kind => $about,)* }
            }
        }
    };
}

pub(crate) use kinds;
