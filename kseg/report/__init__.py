"""Reports as HTML: data in, one self-contained page out."""
