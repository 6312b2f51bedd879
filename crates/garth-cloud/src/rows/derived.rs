//! Derived rows of a group: the keys by which nodes are found, and the passages by which text is. They are
//! derived from rows that are fetched like those of the planner, and written with the rows of the group.

mod fetched;
mod written;

use garth_engine::model::Projection;
use garth_engine::rule::Registry;
use garth_engine::text::passage::Form;

pub(super) use fetched::DerivedKeys;
pub(crate) use fetched::key;
pub use written::DerivedWrites;

pub(crate) use super::round::by_place;

/// Numbers of the projections of a registry, by the kind of their rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Projections {
    /// Projections with one row for each key of a node.
    of_nodes: Vec<i32>,
    /// Projections with one row for each key of a line.
    of_lines: Vec<i32>,
}

impl Projections {
    /// Returns those of attributes and of a registry.
    pub(super) fn of(registry: &Registry) -> Self {
        let number = |projection: Projection| projection.number().cast_signed();
        let (of_lines, of_files): (Vec<_>, Vec<_>) =
            registry.projections().iter().partition(|one| one.is_by_line());
        let of_files = of_files.into_iter().map(|one| one.projection());
        Self {
            of_nodes: Projection::OF_ATTRIBUTES.into_iter().chain(of_files).map(number).collect(),
            of_lines: of_lines.into_iter().map(|one| number(one.projection())).collect(),
        }
    }
}

/// Returns the number of a form.
fn form_number(form: Form) -> i16 {
    match form {
        // Part of the format: a number never changes its meaning.
        Form::Text => 0,
        Form::Json => 1,
        Form::JsonLines => 2,
    }
}

/// Returns the form that has a number.
fn form_of(number: i16) -> Form {
    match number {
        0 => Form::Text,
        1 => Form::Json,
        _ => Form::JsonLines,
    }
}
