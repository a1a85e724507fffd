#!/usr/bin/env python3
"""A network device behind which there is this machine again, some time away.

A packet to 10.9.0.2 comes back as one from there to 10.9.0.1, which is this machine, after so many
milliseconds as the argument says; so does its answer. Source and destination change places, which
leaves all checksums right. It says "ready" once packets can be sent, and runs until it is killed.
"""

import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

# linux/if_tun.h: packets of IP without a header before them.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# Of IPv4 (RFC 791).
SOURCE, DESTINATION = slice(12, 16), slice(16, 20)

hold = float(sys.argv[1]) / 1000
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"held0", IFF_TUN | IFF_NO_PI))
subprocess.run(["ip", "address", "add", "10.9.0.1/24", "dev", "held0"], check=True)
subprocess.run(["ip", "link", "set", "held0", "up"], check=True)
print("ready", flush=True)
held = collections.deque()
while True:
    wait = max(0, held[0][0] - time.monotonic()) if held else None
    if select.select([tun], [], [], wait)[0]:
        packet = bytearray(os.read(tun, 65536))
        if packet[0] >> 4 == 4:
            packet[SOURCE], packet[DESTINATION] = packet[DESTINATION], packet[SOURCE]
            held.append((time.monotonic() + hold, packet))
    while held and held[0][0] <= time.monotonic():
        os.write(tun, held.popleft()[1])
