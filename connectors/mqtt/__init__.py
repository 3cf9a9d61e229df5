"""Messages of MQTT: kept before they are acknowledged, and sent."""
