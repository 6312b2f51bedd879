//! Image headers: every accepted header has a size, and more bytes can only increase the size of a GIF.

#![no_main]

use garth_agent::media::{ImageHeader, ImageType};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(whole) = ImageHeader::read(bytes) else { return };
    assert!(whole.width > 0 && whole.height > 0);
    let Some(cut) = ImageHeader::read(&bytes[..bytes.len() / 2]) else { return };
    assert_eq!(cut.image_type, whole.image_type);
    let grows = whole.image_type == ImageType::Gif;
    assert!(cut.width == whole.width || grows && cut.width < whole.width);
    assert!(cut.height == whole.height || grows && cut.height < whole.height);
});
