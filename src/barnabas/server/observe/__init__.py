"""What a node tells about itself: events, counters, and the pages that show them."""
