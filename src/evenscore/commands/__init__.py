"""The commands, one file each: parse, call, print. A command returns its exit code; None is 0."""

DISPARITY, BAD, UNSHOWN, CRASH, INTERRUPTED, UNREAD = 1, 2, 3, 70, 130, 141
