"""The running rig's electrode array as streams of the Lab Streaming Layer; needs the extra `[lsl]`."""
