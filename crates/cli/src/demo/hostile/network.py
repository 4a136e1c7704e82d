import socket

for host, port in [("169.254.169.254", 80), ("10.0.0.1", 22), ("1.1.1.1", 443)]:
    try:
        socket.create_connection((host, port), timeout=2)
        print(host, port, "connected")
    except OSError as error:
        print(host, port, "->", error.strerror or error)
