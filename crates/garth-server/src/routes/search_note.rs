//! Note of a search without results: which texts were searched, and what to do.

/// Parts of a request that decide which texts it can find.
#[derive(Debug)]
pub(super) struct Searched {
    /// True if values alone are searched.
    pub(super) has_values_alone: bool,
    /// Names of the fields that limit the search.
    pub(super) filters: Vec<&'static str>,
    /// True unless the request continues a list of results.
    pub(super) is_first_page: bool,
}

impl Searched {
    /// Returns the note of an empty answer; `None` for a further page, which only ends the list. `missing` is
    /// the number of files with text that is not indexed yet.
    pub(super) fn note(&self, missing: u64) -> Option<String> {
        if !self.is_first_page {
            return None;
        }
        let (searched, advice) = match self.has_values_alone {
            true => (
                "Only the newest values that were put with \"searchable\": true are searched",
                "Put values with \"searchable\": true, or ask with other words",
            ),
            false => ("Only current texts that the caller reaches are searched", "Ask with other words"),
        };
        let filters: Vec<String> = self.filters.iter().map(|name| format!("\"{name}\"")).collect();
        let without = match &*filters {
            [] => String::new(),
            filters => format!(", or without {}", filters.join(" and ")),
        };
        let later = match missing {
            0 => String::new(),
            missing => format!(" {missing} files are not indexed yet: repeat the search later."),
        };
        Some(format!("Nothing matches the question. {searched}. {advice}{without}.{later}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_names_what_limits_the_search() {
        let searched = |has_values_alone, filters: &[&'static str]| Searched {
            has_values_alone,
            filters: filters.to_vec(),
            is_first_page: true,
        };
        let values = searched(true, &[]).note(0).unwrap();
        assert!(values.contains("\"searchable\"") && !values.contains("without"), "{values}");
        let filtered = searched(true, &["path_prefix", "tags_any"]).note(0).unwrap();
        assert!(
            filtered.ends_with("other words, or without \"path_prefix\" and \"tags_any\"."),
            "{filtered}"
        );
        let texts = searched(false, &["in"]).note(3).unwrap();
        assert!(texts.contains("or without \"in\". 3 files are not indexed"), "{texts}");
        assert_eq!(Searched { is_first_page: false, ..searched(true, &[]) }.note(0), None);
    }
}
