import glob, os

places = ["/etc/shadow", "/var/run/docker.sock", "/proc/1/environ", "/sys/kernel/security"]
homes = glob.glob("/" + "home/*/.aws/credentials") + [os.path.expanduser("~root/.ssh/id_rsa")]
for place in places + homes:
    try:
        with open(place, "rb") as file:
            print(place, "read", len(file.read()), "bytes")
    except OSError as error:
        print(place, "->", error.strerror)
print("variables:", sorted(name for name in os.environ if "KEY" in name or "TOKEN" in name))
