//! Image headers: type, size in pixels and animation, read from the first bytes of a file. Images are not
//! decoded: nothing in a file limits the memory that its decoded image takes.

/// Type of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageType {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    WebP,
}

impl ImageType {
    /// Returns the MIME type.
    pub fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

/// Header of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Type, by the magic bytes.
    pub image_type: ImageType,
    /// Width in pixels, 1 or more.
    pub width: u32,
    /// Height in pixels, 1 or more.
    pub height: u32,
    /// True if it has more than one frame.
    pub animated: bool,
}

impl ImageHeader {
    /// Reads the header of a file. Returns `None` for anything but a PNG, JPEG, GIF or WebP image with a
    /// width and a height. Takes time in proportion to the bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let read = match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', rest @ ..] => png(rest),
            [0xff, 0xd8, 0xff, ..] => jpeg(&bytes[2..]),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => gif(rest),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => webp(rest),
            _ => None,
        };
        read.filter(|header| header.width > 0 && header.height > 0)
    }

    fn still(image_type: ImageType, width: u32, height: u32) -> Self {
        Self { image_type, width, height, animated: false }
    }

    /// Returns the longer side, in pixels.
    pub fn longer_side(&self) -> u32 {
        self.width.max(self.height)
    }
}

fn png(rest: &[u8]) -> Option<ImageHeader> {
    let rest = rest.strip_prefix(b"\0\0\0\x0dIHDR")?;
    let [a, b, c, d, e, f, g, h] = *rest.first_chunk()?;
    let (width, height) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    Some(ImageHeader::still(ImageType::Png, width, height))
}

/// Skips segments up to the frame header (SOF0 to SOF15, without the tables among them).
fn jpeg(mut rest: &[u8]) -> Option<ImageHeader> {
    loop {
        let [0xff, marker, after @ ..] = rest else { return None };
        rest = match marker {
            // Any number of fill bytes precedes a marker.
            0xff => &rest[1..],
            0x01 | 0xd0..=0xd7 => after,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let [_, _, _, a, b, c, d] = *after.first_chunk()?;
                let (height, width) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                return Some(ImageHeader::still(ImageType::Jpeg, width.into(), height.into()));
            }
            // Image data or the end of the file comes before a frame header.
            0x00 | 0xd8..=0xda => return None,
            _ => {
                let length = usize::from(u16::from_be_bytes(*after.first_chunk()?));
                // The length counts its own two bytes. With zero, the loop would never end.
                after.get(length.max(2)..)?
            }
        };
    }
}

/// Reads the blocks, counts the frames and finds the largest one: a frame may exceed the screen.
fn gif(rest: &[u8]) -> Option<ImageHeader> {
    let [a, b, c, d, flags, _, _] = *rest.first_chunk()?;
    let size = |a, b| u32::from(u16::from_le_bytes([a, b]));
    let mut header = ImageHeader::still(ImageType::Gif, size(a, b), size(c, d));
    // The fixed part has seven bytes: two sizes, flags, background colour and aspect ratio.
    let mut rest = after_colors(&rest[7..], flags);
    let mut frames = 0;
    while let Some([kind, after @ ..]) = rest {
        rest = match kind {
            b'!' => after.get(1..).and_then(after_blocks),
            b',' => {
                let Some([a, b, c, d, e, f, g, h, flags]) = after.first_chunk().copied() else { break };
                frames += 1;
                header.width = header.width.max(size(a, b) + size(e, f));
                header.height = header.height.max(size(c, d) + size(g, h));
                // One byte, the size of codes, lies between the colors and the data.
                after_colors(&after[9..], flags).and_then(|rest| rest.get(1..)).and_then(after_blocks)
            }
            _ => break,
        };
    }
    header.animated = frames > 1;
    Some(header)
}

/// Returns the bytes after a table of colors, if the flags announce one.
fn after_colors(rest: &[u8], flags: u8) -> Option<&[u8]> {
    let length = if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    rest.get(length..)
}

/// Returns the bytes after a chain of blocks, each with its length before it.
fn after_blocks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (length, after) = rest.split_first()?;
        rest = after.get(usize::from(*length)..)?;
        // The end of the chain.
        if *length == 0 {
            return Some(rest);
        }
    }
}

fn webp(rest: &[u8]) -> Option<ImageHeader> {
    let [k, i, n, d, _, _, _, _, data @ ..] = rest else { return None };
    let size = |a, b| u32::from(u16::from_le_bytes([a, b]));
    match &[*k, *i, *n, *d] {
        b"VP8 " => {
            let [_, _, _, 0x9d, 0x01, 0x2a, a, b, c, d] = *data.first_chunk()? else { return None };
            // The upper two bits are a scale.
            Some(ImageHeader::still(ImageType::WebP, size(a, b) & 0x3fff, size(c, d) & 0x3fff))
        }
        b"VP8L" => {
            // The extended sizes are stored minus one.
            let [0x2f, a, b, c, d] = *data.first_chunk()? else { return None };
            let bits = u32::from_le_bytes([a, b, c, d]);
            Some(ImageHeader::still(ImageType::WebP, (bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => {
            let [flags, _, _, _, a, b, c, d, e, f] = *data.first_chunk()?;
            let size = |a, b, c| u32::from_le_bytes([a, b, c, 0]) + 1;
            let animated = flags & 0x02 != 0;
            Some(ImageHeader {
                animated,
                ..ImageHeader::still(ImageType::WebP, size(a, b, c), size(d, e, f))
            })
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the first bytes of a PNG of a size.
    pub(crate) fn png_of(width: u32, height: u32) -> Vec<u8> {
        let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
        [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", &*size, b"\x08\x06\0\0\0"].concat()
    }

    /// Returns a GIF of frames of one pixel.
    pub(crate) fn gif_of(width: u16, height: u16, frames: usize) -> Vec<u8> {
        let screen = [width.to_le_bytes(), height.to_le_bytes()].concat();
        let frame = b"!\xf9\x04\0\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
        [b"GIF89a", &*screen, b"\x80\0\0\0\0\0\xff\xff\xff", &frame.repeat(frames), b";"].concat()
    }

    fn jpeg_of(width: u16, height: u16) -> Vec<u8> {
        let size = [height.to_be_bytes(), width.to_be_bytes()].concat();
        [b"\xff\xd8\xff\xe0\0\x05abc\xff\xff\xff\xc4\0\x03x\xff\xc2\0\x0b\x08", &*size, b"\x01"].concat()
    }

    fn webp_of(chunk: &[u8]) -> Vec<u8> {
        [b"RIFF\x24\0\0\0WEBP", chunk].concat()
    }

    fn read(bytes: &[u8]) -> Option<(&'static str, u32, u32, bool)> {
        let header = ImageHeader::read(bytes)?;
        Some((header.image_type.mime_type(), header.width, header.height, header.animated))
    }

    #[test]
    fn reads_type_and_size_of_each_format() {
        let lossless = 4999_u32 | 299 << 14;
        for (bytes, due) in [
            (png_of(9000, 2), ("image/png", 9000, 2, false)),
            (jpeg_of(640, 480), ("image/jpeg", 640, 480, false)),
            (gif_of(320, 200, 1), ("image/gif", 320, 200, false)),
            (gif_of(320, 200, 2), ("image/gif", 320, 200, true)),
            (webp_of(b"VP8 \0\0\0\0\x30\x01\0\x9d\x01\x2a\x80\x02\xe0\x41"), ("image/webp", 640, 480, false)),
            (
                webp_of(&[&b"VP8L\0\0\0\0\x2f"[..], &lossless.to_le_bytes()].concat()),
                ("image/webp", 5000, 300, false),
            ),
            (webp_of(b"VP8X\x0a\0\0\0\x02\0\0\0\xff\xff\0\x01\0\0"), ("image/webp", 65_536, 2, true)),
        ] {
            assert_eq!(read(&bytes), Some(due));
        }
    }

    #[test]
    fn takes_the_largest_frame_of_a_gif() {
        let frame = b",\x10\0\0\0\0\x20\x10\0\0\x02\0;";
        let bytes = [b"GIF87a\x02\0\x02\0\0\0\0", &frame[..]].concat();
        assert_eq!(read(&bytes), Some(("image/gif", 0x2010, 0x10, false)));
    }

    #[test]
    fn rejects_other_files_as_images() {
        let zero_length = b"\xff\xd8\xff\xe0\0\0\0\0\0\0".to_vec();
        for bytes in [
            b"<!DOCTYPE html><html></html>".to_vec(),
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec(),
            b"\xff\xd8\xff\xd9".to_vec(),
            b"RIFF\x24\0\0\0WAVEfmt ".to_vec(),
            webp_of(b"VP8L\0\0\0\0\x2e\0\0\0\0"),
            png_of(0, 5),
            jpeg_of(5, 0),
            zero_length,
            Vec::new(),
        ] {
            assert_eq!(read(&bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn image_header_survives_truncation() {
        let extended = webp_of(b"VP8X\x0a\0\0\0\0\0\0\0\xff\xff\0\x01\0\0");
        for bytes in [png_of(3, 4), jpeg_of(3, 4), gif_of(3, 4, 3), extended] {
            let whole = ImageHeader::read(&bytes).unwrap();
            for cut in 0..bytes.len() {
                if let Some(header) = ImageHeader::read(&bytes[..cut]) {
                    assert_eq!((header.width, header.height), (whole.width, whole.height), "{cut}");
                }
            }
        }
    }
}
