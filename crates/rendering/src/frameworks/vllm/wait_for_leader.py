"""Ends when the leader of this replica listens.

LEADER_HOST and LEADER_PORT say where. An address may still belong to a pod that is going away, so the API server is asked
whose it is; where it may not be asked, a connection has to be proof enough.
"""

import json
import os
import socket
import ssl
import time
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
PAUSE = 5
REPORT = 30


def read(name):
    with open(os.path.join(ACCOUNT, name), encoding="utf-8") as file:
        return file.read().strip()


def pods_at(address):
    url = "https://kubernetes.default.svc/api/v1/namespaces/{}/pods?fieldSelector=status.podIP={}"
    request = urllib.request.Request(url.format(read("namespace"), address))
    request.add_header("Authorization", "Bearer " + read("token"))
    context = ssl.create_default_context(cafile=os.path.join(ACCOUNT, "ca.crt"))
    with urllib.request.urlopen(request, context=context, timeout=5) as answer:
        return json.load(answer).get("items") or []


def is_running(pod):
    return "deletionTimestamp" not in pod["metadata"] and pod.get("status", {}).get("phase") == "Running"


def obstacle(host, port):
    """Why the leader cannot be reached, or nothing."""
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        return "no address: {}".format(error)
    try:
        pods = pods_at(address)
        if not any(is_running(pod) for pod in pods):
            return "no running pod has the address {}".format(address)
    except (OSError, ValueError, KeyError):
        pass
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError as error:
        return "{}:{}: {}".format(address, port, error)
    return None


def main():
    host, port = os.environ["LEADER_HOST"], int(os.environ["LEADER_PORT"])
    print("waiting for {}:{}".format(host, port), flush=True)
    reported = time.monotonic()
    while True:
        time.sleep(PAUSE)
        problem = obstacle(host, port)
        if problem is None:
            print("{}:{} listens".format(host, port), flush=True)
            return
        if time.monotonic() - reported >= REPORT:
            reported = time.monotonic()
            print("still waiting for {}:{}: {}".format(host, port, problem), flush=True)


main()
