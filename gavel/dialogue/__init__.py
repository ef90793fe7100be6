"""The task-oriented dialogue benchmark: MultiWOZ and DSTC8 Track 1, offline, from prediction files."""
