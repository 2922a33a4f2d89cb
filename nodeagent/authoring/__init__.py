"""For those who write plugins: a project to begin with, and a check that tells what is wrong with one."""
