"""The rules of play, without Gymnasium: episodes, roles, tools, the gate, rewards and the round."""
