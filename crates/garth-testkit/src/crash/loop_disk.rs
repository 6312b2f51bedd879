//! Disk that can lose its power: ext4 on a loop device, shut down with an ioctl of the filesystem. Data that
//! were not synced are gone when it is mounted again, as after a real power cut.

// One ioctl has no safe wrapper.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use garth_engine::Env;

use crate::tools::on_disk;

/// `FS_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)` in `linux/fs.h`.
const FS_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587D;
/// `EXT4_GOING_FLAGS_NOLOGFLUSH` in `fs/ext4/ext4.h`: stop at once, without writing the journal.
const NOLOGFLUSH: u32 = 2;
/// Size of the sparse image, in bytes: 2 GiB.
const SIZE: u64 = 2 << 30;
/// Attempts to unmount while the last files are being closed.
const UNMOUNT_TRIES: u32 = 50;
/// Pause between two attempts.
const UNMOUNT_PAUSE: Duration = Duration::from_millis(20);

/// Mounted disk. Dropping it unmounts it and removes its image.
#[derive(Debug)]
pub struct Disk {
    folder: tempfile::TempDir,
    mounted: bool,
}

impl Disk {
    /// Creates an empty disk and mounts it.
    ///
    /// # Errors
    /// Without root, loop devices or the tools: a sentence that names the missing package.
    pub fn new() -> Result<Self, String> {
        Self::of_size(SIZE)
    }

    /// Creates a disk as [`Disk::new`] does, with `size` bytes.
    ///
    /// # Errors
    /// As [`Disk::new`].
    pub fn of_size(size: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir_in(on_disk()).map_err(|e| format!("no temporary folder: {e}"))?;
        let mut disk = Self { folder, mounted: false };
        let prepare = || {
            fs::create_dir(disk.mount_point())?;
            // Sparse: the image takes space only for what is written.
            File::create(disk.image())?.set_len(size)
        };
        prepare().map_err(|e| format!("no room for the disk image: {e}"))?;
        let image = disk.image();
        run("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &image])?;
        disk.mount()?;
        Ok(disk)
    }

    /// Returns the mount point.
    pub fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Cuts the power: from here on nothing reaches the disk, and every sync fails.
    ///
    /// # Errors
    /// If the filesystem rejects the ioctl.
    pub fn cut(&self) -> Result<(), String> {
        let root =
            File::open(self.mount_point()).map_err(|e| format!("cannot open the mounted disk: {e}"))?;
        let how = NOLOGFLUSH;
        // SAFETY: the descriptor is open for the whole call, and the request reads one u32 through the
        // pointer.
        let answer = unsafe { libc::ioctl(root.as_raw_fd(), FS_IOC_SHUTDOWN, &raw const how) };
        if answer == 0 {
            return Ok(());
        }
        Err(format!("FS_IOC_SHUTDOWN failed ({}); it needs root and ext4", std::io::Error::last_os_error()))
    }

    /// Remounts the disk read-only. No process may have a file of it open for writing.
    ///
    /// # Errors
    /// If it cannot be remounted.
    pub fn make_read_only(&self) -> Result<(), String> {
        run("mount", &[Path::new("-o"), Path::new("remount,ro"), &self.mount_point()])
    }

    /// Turns the power on again. No process may have a file of it open.
    ///
    /// # Errors
    /// If it cannot be unmounted or mounted.
    pub fn restore(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    fn mount(&mut self) -> Result<(), String> {
        let (image, mount_point) = (self.image(), self.mount_point());
        // The loop device detaches itself at the unmount.
        run("mount", &[Path::new("-o"), Path::new("loop,noatime"), &image, &mount_point])?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        let mount_point = self.mount_point();
        // The kernel may still be closing the files of a killed process.
        let mut tries = 0;
        while let Err(error) = run("umount", &[&mount_point]) {
            tries += 1;
            if tries == UNMOUNT_TRIES {
                return Err(error);
            }
            Env::system().sleep(UNMOUNT_PAUSE);
        }
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            // A process with an open file keeps only that file; the image and the loop device are removed
            // with it.
            let _ = run("umount", &[Path::new("-l"), &self.mount_point()]);
        }
    }
}

fn run(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let needs = "the power cut needs Linux, root, loop devices and `mkfs.ext4` (apt-get install e2fsprogs mount; in a \
                 container run it with --privileged)";
    let output =
        Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}; {needs}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}; {needs}", String::from_utf8_lossy(&output.stderr).trim()))
}
