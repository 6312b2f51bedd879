//! MIME types of media and the extensions of their files.

/// MIME types with a file extension of their own. Of two types with one extension, the extension maps to the
/// first.
const ENDINGS: [(&str, &str); 20] = [
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "opus"),
    ("audio/mpeg", "mp3"),
    ("audio/mp3", "mp3"),
    ("audio/mp4", "m4a"),
    ("audio/m4a", "m4a"),
    ("audio/wav", "wav"),
    ("audio/webm", "webm"),
    ("audio/flac", "flac"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("video/quicktime", "mov"),
    ("application/pdf", "pdf"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
];

/// Extension of files of any other type.
const OTHER: &str = "bin";

/// MIME type of files with an unknown extension.
const UNKNOWN: &str = "application/octet-stream";

/// Returns a MIME type without its parameters, in lower case.
pub fn bare(mime_type: &str) -> String {
    mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the file extension of a MIME type; `bin` for one without an extension of its own.
pub fn extension(mime_type: &str) -> &'static str {
    let bare = bare(mime_type);
    ENDINGS.iter().find(|(known, _)| *known == bare).map_or(OTHER, |(_, ending)| ending)
}

/// Returns the MIME type for the extension of a file name.
pub fn type_of(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    // Only names have this ending; the table maps the type to `jpg`.
    let ending = if ending == "jpeg" { "jpg" } else { &ending };
    // The table maps `webm` to audio as well. Files of this type are videos far more often.
    if ending == "webm" {
        return "video/webm";
    }
    ENDINGS.iter().find(|(_, known)| *known == ending).map_or(UNKNOWN, |(mime_type, _)| mime_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mime_types_map_to_extensions() {
        let rows = [
            ("image/jpeg", "jpg"),
            ("image/png", "png"),
            ("image/gif", "gif"),
            ("image/webp", "webp"),
            ("image/svg+xml", "svg"),
            ("audio/ogg", "ogg"),
            ("audio/opus", "opus"),
            ("audio/mpeg", "mp3"),
            ("audio/mp3", "mp3"),
            ("audio/mp4", "m4a"),
            ("audio/m4a", "m4a"),
            ("audio/wav", "wav"),
            ("audio/webm", "webm"),
            ("audio/flac", "flac"),
            ("video/mp4", "mp4"),
            ("video/webm", "webm"),
            ("video/quicktime", "mov"),
            ("application/pdf", "pdf"),
            ("application/msword", "doc"),
            ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        ];
        for (mime_type, ending) in rows {
            assert_eq!(extension(mime_type), ending, "{mime_type}");
            assert_eq!(extension(&format!(" {} ; a=\"b\"", mime_type.to_uppercase())), ending, "{mime_type}");
            assert_eq!(extension(type_of(&format!("a.b.{ending}"))), ending, "{ending}");
        }
        assert_eq!(rows.len(), ENDINGS.len());
    }

    #[test]
    fn unknown_mime_types_have_extension_bin() {
        for other in
            ["", "image", "image/pngx", "text/plain", "application/octet-stream", ";image/png", "png"]
        {
            assert_eq!(extension(other), "bin", "{other}");
        }
        for name in ["", "png", "a.xyz", "a."] {
            assert_eq!(type_of(name), "application/octet-stream", "{name}");
        }
        assert_eq!((type_of("A.JPEG"), type_of("film.webm")), ("image/jpeg", "video/webm"));
    }
}
