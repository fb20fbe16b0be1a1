"""The S3 suite: what ordinary clients do with buckets and objects, and what they must be refused."""
