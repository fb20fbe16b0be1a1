//! The storage node: S3 with S3 Select on local disks or in front of a folder.
